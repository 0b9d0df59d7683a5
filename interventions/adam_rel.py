"""Adam-Rel sets Adam's step counters to 0 whenever the objective changes.

    t ← 0,   m and v kept

The bias corrections m̂ = m/(1 − β₁ᵗ) and v̂ = v/(1 − β₂ᵗ) then work as if training began there. If gradients grow
with the change of the objective, Adam's first steps stay near the learning rate. If they do not grow, the correction of
v outweighs that of m at first, and steps grow from √(1 − β₂)/(1 − β₁) of their usual length, which is 0.3 for
β = (0.9, 0.999).

The objective changes at each copy to the target network (DQN: `adam_rel@every:2000`, the agent's `--target-period`),
with each rollout (PPO: `@every:` its number of environment steps) or at a new task (`@task`).

Source: Ellis et al. 2024, "Adam on local time: addressing nonstationarity in RL with relative Adam timesteps",
arXiv:2412.17113.

Resets: step counters only.

Cost: negligible. As for every scheduled intervention, each firing writes an event and two measurements.
"""

import torch

from supple.networks import Learner
from supple.networks.optimizer_state import COUNTERS, slot_starts, write_start_

from .base import Intervention, interventions
from .contract import ResetContract, check_optimizer


@interventions.register("adam_rel")
class AdamRel(Intervention):
    """Set Adam's step counters to 0 and keep its moments; it needs a schedule, such as `@task` (Ellis et al. 2024)."""

    def attach(self, learner: Learner) -> None:
        optimizer = learner.optimizer
        check_optimizer(optimizer)
        if optimizer is None or "betas" not in optimizer.param_groups[0] or "step" not in slot_starts(optimizer):
            kind = "none" if optimizer is None else type(optimizer).__name__
            raise ValueError(f"adam_rel: '{learner.name}' has {kind}; adam_rel needs Adam, whose step count it resets")

    def contract(self, learner: Learner) -> dict[str, str]:
        columns = {"optimizer state": "step counters zeroed in place, moments kept"}
        return ResetContract(target="kept").describe("kept", learner, columns)

    @torch.no_grad()
    def apply(self, learner: Learner) -> list[str]:
        assert learner.optimizer is not None
        check_optimizer(learner.optimizer)
        starts = slot_starts(learner.optimizer)
        for parameter in learner.module.parameters():
            slots = learner.optimizer.state.get(parameter, {})
            for slot in COUNTERS & slots.keys():
                write_start_(slots, slot, starts[slot])
        return []
