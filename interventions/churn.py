"""CHAIN penalises churn: how far one update moves the outputs on inputs that it did not learn from.

    L ← L + λ·mean KL(π_before(·|s) ‖ π(·|s))    for a policy
    L ← L + λ·mean (Q_before(s, ·) − Q(s, ·))²   for values

The mean is over the states of another minibatch than the one used for the update. "Before" is the network before the
last update. A learner with a stochastic policy (PPO, for its policy only; SAC's actor) has the first term. A learner
with values only (DQN, SAC's critics) has the second. If another hook rewrites weights, the next update compares with
the network before that.

C-CHAIN adapts λ so that the penalty is on average the share β of the training loss:

    λ = β·mean|L| / (mean churn + 1e-8)          over the last `window` updates

L is the loss of an update without penalties: PPO's clipped objective without value loss and entropy, the loss of DQN,
the losses of SAC. The churn is the mean in the first two equations. The first `window` penalties have λ = `strength`.

Source: Tang & Berseth 2024, "Improving deep reinforcement learning by reducing the chain effect of value and policy
churn", arXiv:2409.04792. C-CHAIN applies it to continual learning: Tang et al. 2025, "Mitigating plasticity loss in
continual reinforcement learning by reducing churn", arXiv:2506.00592.

Resets: nothing.

Cost: a copy of the parameters, and two forward passes and one backward pass on another minibatch per update. PPO's
steps are compiled one by one and DQN's steps are not captured as CUDA graphs while it is active.

Released code: bluecontra/C-CHAIN uses the cross entropy for discrete policies, whose gradient is that of the KL
divergence. For Gaussian policies it uses the mean squared difference of the means over the d dimensions of the action,
which is 2σ²/d times the KL divergence here if σ is the same before and after; a change of σ costs nothing there. Like
here, it compares with the network before the last update (`his_policy_list[-2]`, after the present one was appended).
Its PPO begins at the third update, this one at the second. CHAIN's Double DQN has a constant λ of 100. C-CHAIN's β is
0.05 for PPO on continuous control, with the squared difference of the means and the last minibatch of each of 100
rollouts, and 0.01 for Double DQN, with the last 50,000 updates. PPO's λ is also multiplied by the fraction of the
learning rate that annealing leaves. Until λ adapts, it is 100 in the first 50 rollouts of PPO
(crl_dmc/crl_run_ppo_c_chain_dmc.py) and 50 in the first 10,000 updates of Double DQN
(crl_minatar/agents/double_dqn_c_chain.py). Its β of 10,000 for Gym Control is another number: there the cross entropy
is in the denominator, L is the mean over all updates of a rollout, whose signs differ, and contains the entropy bonus,
λ is at least 1, and both means start again at every switch of the task.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from supple.networks import Learner
from supple.networks.distributions import kl_divergence
from supple.networks.learner import Probe

from .base import Intervention, check_within, interventions


@dataclass(frozen=True)
class OtherMinibatch:
    """A capability for CHAIN: inputs that the update does not learn from.

    Attributes:
        inputs: Returns the inputs of another minibatch of the current data at each call, drawn by the learner's
            generator; None while there are no data.
    """

    inputs: Probe


@dataclass(frozen=True)
class LastLoss:
    """A capability for C-CHAIN: the training loss.

    Attributes:
        value: Returns the loss of the last update without penalties, (), or (seeds,) for a stack of seeds: the policy's
            for a policy, else the values'.
    """

    value: Callable[[], Tensor]


@interventions.register("chain")
class Chain(Intervention):
    """Penalise how far an update moved the policy or the values on another minibatch (Tang & Berseth 2024).

    Args:
        strength: λ ≥ 0; CHAIN's Double DQN uses 100.
        share: C-CHAIN's β > 0, with which λ adapts (Tang et al. 2025), or None.
        window: Updates over which λ is adapted, ≥ 1.
    """

    def __init__(self, strength: float = 100.0, share: float | None = None, window: int = 1000) -> None:
        check_within("chain", strength=(strength, "[0, ∞)"), share=(share, "(0, ∞)"), window=(window, "[1, ∞)"))
        self.strength, self.share, self.window = strength, share, window
        # By learner: parameters before the last update by identity; of the last updates |L| ("losses") and "churns",
        # (window,) or (seeds, window) for a stack of seeds, written in turn, the number of "updates", and the λ
        # ("strength") that follows from them, () or (seeds,).
        self.saved = {"before": {}, "recent": {}}
        self._other_inputs: dict[str, Sequence[Any] | None] = {}  # inputs of the next penalty, by learner
        self._churn: dict[str, Tensor] = {}  # of the update under way, by learner

    def attach(self, learner: Learner) -> None:
        learner.check_trained("chain")
        if learner.policy is None and learner.values is None:
            raise ValueError(
                f"chain: '{learner.name}' has neither a policy nor values; set Learner.policy or Learner.values"
            )
        if learner.offers(OtherMinibatch) is None:
            raise ValueError(f"chain: '{learner.name}' provides no other minibatch; let it offer an OtherMinibatch")
        if self.share is not None and learner.offers(LastLoss) is None:
            raise ValueError(
                f"chain: '{learner.name}' provides no last loss; let it offer a LastLoss, or leave out share"
            )

    def before_loss(self, learner: Learner) -> None:
        other = learner.offers(OtherMinibatch)
        assert other is not None
        # There is no earlier network before the first update, or after the parameters have changed.
        known = self.saved["before"].get(learner.name, {}).keys() == set(map(learner.identity, learner.trained()))
        self._other_inputs[learner.name] = other.inputs() if known else None

    def penalty(self, learner: Learner) -> Tensor:
        if (inputs := self._other_inputs[learner.name]) is None:
            return next(learner.module.parameters()).new_zeros(())
        now = learner.trained()
        old = {name: self.saved["before"][learner.name][learner.identity(name)] for name in now}
        with torch.no_grad():
            reference = learner.outputs(old, inputs)
        outputs = learner.outputs({}, inputs)
        if learner.policy is not None:
            was, policy = learner.policy(reference, old), learner.policy(outputs, now)
            if isinstance(was, Distribution) and isinstance(policy, Distribution):
                churn = kl_divergence(was, policy)  # float64
                return self._weigh(learner, churn.to(next(learner.module.parameters()).dtype))
        assert learner.values is not None
        return self._weigh(learner, (learner.values(outputs) - learner.values(reference)).square())

    def _weigh(self, learner: Learner, churn: Tensor) -> Tensor:
        """Return the penalty for a churn on each input, (n, …) or (members, n, …); each seed has its own λ."""
        if not learner.members:
            total = churn.mean()
        else:
            of_network = churn.flatten(1).mean(1)
            total = learner.by_seed(of_network).sum(1) if learner.seeds else of_network.sum()
        self._churn[learner.name] = total.detach()
        strength = self.saved["recent"].get(learner.name, {}).get("strength", self.strength)
        return (strength * total).sum()

    @torch.no_grad()
    def before_update(self, learner: Learner) -> None:
        now = {learner.identity(name): parameter.detach() for name, parameter in learner.trained().items()}
        kept = self.saved["before"].get(learner.name, {})
        if kept.keys() == now.keys():
            torch._foreach_copy_(list(kept.values()), [now[key] for key in kept])
        else:
            self.saved["before"][learner.name] = {key: value.clone() for key, value in now.items()}

    @torch.no_grad()
    def after_update(self, learner: Learner) -> None:
        churn = self._churn.pop(learner.name, None)
        if self.share is None or churn is None:
            return
        last_loss = learner.offers(LastLoss)
        assert last_loss is not None
        if learner.name not in self.saved["recent"]:
            zeros, strength = churn.new_zeros(*churn.shape, self.window), torch.full_like(churn, self.strength)
            start = {"losses": zeros, "churns": zeros.clone(), "updates": 0, "strength": strength}
            self.saved["recent"][learner.name] = start
        recent = self.saved["recent"][learner.name]
        at = recent["updates"] % self.window
        recent["losses"][..., at], recent["churns"][..., at] = last_loss.value().abs(), churn
        recent["updates"] += 1
        if recent["updates"] >= self.window:
            recent["strength"].copy_(self.share * recent["losses"].mean(-1) / (recent["churns"].mean(-1) + 1e-8))
