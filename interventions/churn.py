"""CHAIN, churn approximated reduction (Tang & Berseth 2024, "Improving deep reinforcement learning by reducing the
chain effect of value and policy churn", arXiv 2409.04792), and C-CHAIN, the same in continual learning (Tang et al.
2025, "Mitigating plasticity loss in continual reinforcement learning by reducing churn", arXiv 2506.00592).

    L ← L + λ·mean KL(π_before(·|s) ‖ π(·|s))    of a policy
    L ← L + λ·mean (Q_before(s, ·) − Q(s, ·))²   of values

over the states of another minibatch than that which the update learns from: what one update does to the outputs on
inputs that it does not see is churn. "Before" is the network before the last update. A learner with a stochastic policy
(PPO, and its policy alone; SAC's actor) has the first term, one of values alone (DQN, SAC's critics) the second.

The released code (bluecontra/C-CHAIN) has the cross entropy of discrete policies, whose gradient is the KL
divergence's, and the squared difference of the means of Gaussian ones, which is 2σ² times theirs. It keeps the last
networks in a list and takes the last but one, `his_policy_list[-2]`, after appending the present one: the network
before the last update, as here; its PPO begins at the third update, here it is at the second. λ is a number here, as in
CHAIN's Double DQN; C-CHAIN sets it from the ratio of running means of the two losses, of which a hook sees one.

It resets nothing; where another hook rewrites weights, the next update looks back across that. PPO's steps are not
compiled, and DQN's not captured, while it is on. Cost: a copy of the parameters, and two forward passes and one
backward pass on another minibatch per update.
"""

import torch
from torch import Tensor
from torch.distributions import Distribution, kl_divergence

from ..networks.learner import Learner
from ..networks.members import members_of
from .base import Intervention, interventions


@interventions.register("chain")
class Chain(Intervention):
    """Penalty on how far an update moved the policy, or the values, on another minibatch (Tang & Berseth 2024).

    strength: λ ≥ 0; CHAIN's Double DQN has 100, and C-CHAIN's PPO comes to about as much by itself.
    """

    def __init__(self, strength: float = 100.0) -> None:
        if not 0.0 <= strength < float("inf"):
            raise ValueError(f"chain: strength must be finite and ≥ 0, got {strength}")
        self.strength = strength
        self._before: dict[str, dict[str, Tensor]] = {}  # parameters before the last update, by learner and identity

    def attach(self, learner: Learner) -> None:
        if learner.policy is None and learner.values is None:
            raise ValueError(
                f"chain: '{learner.name}' tells neither policy nor values (Learner.policy, Learner.values)"
            )
        if learner.another is None:
            raise ValueError(f"chain: '{learner.name}' offers no other minibatch to look at (Learner.another)")

    def penalty(self, learner: Learner) -> Tensor:
        before = self._before.get(learner.name, {})
        now = learner.trained()
        keys = {name: learner.identity(name) for name in now}
        assert learner.another is not None
        # Before the first update there is nothing to compare with, nor for a network that has other parts since.
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
