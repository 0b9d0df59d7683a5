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
from torch import Tensor

from ..networks.learner import Learner
from .base import Intervention, interventions
from .contract import ResetContract


@interventions.register("adam_rel")
class AdamRel(Intervention):
    """Set Adam's step counters to 0 and keep its moments; it needs a schedule, such as `@task` (Ellis et al. 2024)."""

    def attach(self, learner: Learner) -> None:
        if learner.optimizer is None or "betas" not in learner.optimizer.param_groups[0]:
            kind = "none" if learner.optimizer is None else type(learner.optimizer).__name__
            raise ValueError(f"adam_rel: '{learner.name}' has {kind}; adam_rel needs Adam, whose step count it resets")

    def contract(self, learner: Learner) -> dict[str, str]:
        own = {"optimizer state": "step counters zeroed in place, moments kept"}
        return ResetContract(target="kept").describe("kept", learner, own)

    @torch.no_grad()
    def apply(self, learner: Learner) -> list[str]:
        assert learner.optimizer is not None
        for slots in learner.optimizer.state.values():
            if isinstance(step := slots.get("step"), Tensor):
                step.zero_()
            elif step is not None:
                slots["step"] = 0
        return []
