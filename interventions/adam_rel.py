"""Adam-Rel, Adam with relative time steps (Ellis et al. 2024, "Adam on local time: addressing nonstationarity in RL
with relative Adam timesteps", arXiv 2412.17113).

    t ← 0,   m and v kept   wherever the objective changes

so that m̂ = m/(1 − β₁ᵗ) and v̂ = v/(1 − β₂ᵗ) are corrected as if training began there. Where gradients grow with the
objective, Adam's first steps then stay near the learning rate; where they do not, the correction of v outweighs that of
m at first, and steps grow from √(1 − β₂)/(1 − β₁) of their usual length, 0.3 with β = (0.9, 0.999).

The objective changes at each copy to the target network (DQN: `adam_rel@every:2000`, the agent's `--target-period`),
with each rollout (PPO: `@every:` the environment steps of one), or at a new task (`@task`). It resets the step
counters, and nothing else. Cost: none to speak of; but as with all that a schedule applies, an event is written and the
network measured before and after.
"""

import torch
from torch import Tensor

from ..networks.learner import Learner
from .base import Intervention, interventions
from .contract import ResetContract


@interventions.register("adam_rel")
class AdamRel(Intervention):
    """Set Adam's step counters to zero and keep its moments (Ellis et al. 2024);
    needs a schedule, which says when the objective changes: `adam_rel@task`.
    """

    def attach(self, learner: Learner) -> None:
        if learner.optimizer is None or "betas" not in learner.optimizer.param_groups[0]:
            kind = "none" if learner.optimizer is None else type(learner.optimizer).__name__
            raise ValueError(f"adam_rel: it is Adam's step count that is reset, and '{learner.name}' has {kind}")

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
