"""CHAIN penalises churn: how far one update moves the outputs on inputs that it did not learn from.

    L ← L + λ·mean KL(π_before(·|s) ‖ π(·|s))    for a policy
    L ← L + λ·mean (Q_before(s, ·) − Q(s, ·))²   for values

The mean is over the states of another minibatch than the one used for the update. "Before" is the network before the
last update. A learner with a stochastic policy (PPO, for its policy only; SAC's actor) has the first term. A learner
with values only (DQN, SAC's critics) has the second. If another hook rewrites weights, the next update compares with
the network before that.

Source: Tang & Berseth 2024, "Improving deep reinforcement learning by reducing the chain effect of value and policy
churn", arXiv:2409.04792. C-CHAIN applies it to continual learning: Tang et al. 2025, "Mitigating plasticity loss in
continual reinforcement learning by reducing churn", arXiv:2506.00592.

Resets: nothing.

Cost: a copy of the parameters, and two forward passes and one backward pass on another minibatch per update. PPO's
steps are not compiled and DQN's steps are not captured as CUDA graphs while it is active.

Released code: bluecontra/C-CHAIN uses the cross entropy for discrete policies, whose gradient is that of the KL
divergence. For Gaussian policies it uses the squared difference of the means, which is 2σ² times the KL divergence
here. Like here, it compares with the network before the last update (`his_policy_list[-2]`, after the present one was
appended). Its PPO begins at the third update, this one at the second. λ is a constant here, as in CHAIN's Double DQN.
C-CHAIN sets it from the ratio of running means of the two losses, but a hook sees only one of them.
"""

import torch
from torch import Tensor
from torch.distributions import Distribution, kl_divergence

from ..networks.learner import Learner
from ..networks.members import members_of
from .base import Intervention, interventions


@interventions.register("chain")
class Chain(Intervention):
    """Penalise how far an update moved the policy or the values on another minibatch (Tang & Berseth 2024).

    strength: λ ≥ 0; CHAIN's Double DQN uses 100. The adaptive λ of C-CHAIN's PPO reaches a similar value.
    """

    traceable = False  # the other minibatch is drawn

    def __init__(self, strength: float = 100.0) -> None:
        if not 0.0 <= strength < float("inf"):
            raise ValueError(f"chain: strength must be finite and ≥ 0, got {strength}")
        self.strength = strength
        self._before: dict[str, dict[str, Tensor]] = {}  # parameters before the last update, by learner and identity

    def attach(self, learner: Learner) -> None:
        if learner.policy is None and learner.values is None:
            raise ValueError(
                f"chain: '{learner.name}' has neither a policy nor values; set Learner.policy or Learner.values"
            )
        if learner.another is None:
            raise ValueError(f"chain: '{learner.name}' provides no other minibatch; set Learner.another")

    def penalty(self, learner: Learner) -> Tensor:
        before = self._before.get(learner.name, {})
        now = learner.trained()
        keys = {name: learner.identity(name) for name in now}
        assert learner.another is not None
        # There is no earlier network before the first update, or after the parameters have changed.
        if before.keys() != set(keys.values()) or (inputs := learner.another()) is None:
            return next(learner.module.parameters()).new_zeros(())
        old = {name: before[key] for name, key in keys.items()}
        with torch.no_grad():
            reference = learner.outputs(old, inputs)
        outputs = learner.outputs({}, inputs)
        if learner.policy is not None:
            was, policy = learner.policy(reference, old), learner.policy(outputs, now)
            if isinstance(was, Distribution) and isinstance(policy, Distribution):
                return self.strength * kl_divergence(was, policy).mean()
        assert learner.values is not None
        squares = (learner.values(outputs) - learner.values(reference)).square()
        return (
            self.strength * squares.flatten(1).mean(1).sum() if members_of(learner) else self.strength * squares.mean()
        )

    @torch.no_grad()
    def before_update(self, learner: Learner) -> None:
        now = {learner.identity(name): parameter.detach() for name, parameter in learner.trained().items()}
        kept = self._before.get(learner.name, {})
        if kept.keys() == now.keys():
            torch._foreach_copy_(list(kept.values()), [now[key] for key in kept])
        else:
            self._before[learner.name] = {key: value.clone() for key, value in now.items()}

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        return {learner: dict(values) for learner, values in self._before.items()}

    def load_state_dict(self, state: dict[str, dict[str, Tensor]]) -> None:
        self._before = {  # copies, since they are written in place
            learner: {key: value.clone() for key, value in values.items()} for learner, values in state.items()
        }
