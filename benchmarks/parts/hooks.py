"""What hooks cost that act at every update, or wait; and what dead units cost whose slots are denormal."""

from collections.abc import Callable, Sequence
from itertools import chain
from statistics import median
from time import process_time
from typing import Any

import subjects
import torch
from entries import Asked, Turn, Turns
from stepped import SteppedAgent
from timing import seconds
from torch import Tensor

from supple.agents.ppo import PPOSettings
from supple.engine.hooks.driver import HookDriver
from supple.interventions import Learner, parse_hook

METHODS = (
    "trac", "l2_init", "l2_er", "parseval", "spectral", "wasserstein", "chain", "cpr", "cbp",
    "soft_snp(toward=initial)", "soft_snp", "upgd", "hare_tortoise@every:1_000_000_000",
)  # fmt: skip
ROLLOUT, BATCH = 2048, 64  # of all copies, and of a gradient step of PPO
TINY = 1e-42  # a denormal number


def driver(hooks: Sequence[str], learner: Learner) -> HookDriver:
    parsed = [hook for text in hooks if (hook := parse_hook(text))]
    return HookDriver(parsed, {learner.name: learner}, lambda **_: None, 10**12)


def of_ppo(asked: Asked, way: str) -> Turns:
    return side_by_side(asked, lambda hooks: ppo_with(hooks, way), METHODS)


def ppo_with(hooks: Sequence[str], way: Any) -> tuple[Learner, Callable[[], float]]:
    """Return the learner of such a run, and a turn: ms of the processor for a gradient step, environments apart."""
    settings = PPOSettings(
        env="halfcheetah", hidden=(256,) * 3, epochs=1, minibatch_size=BATCH, steps=10**9, device="cpu", compile=way
    )
    run = SteppedAgent("ppo", settings)
    learner, update, spent = run.work.learners["agent"], run.agent.update, [0.0]
    run.hooks = driver(hooks, learner)

    def timed(*args: Any, **options: Any) -> bool:
        learned: list[bool] = []
        spent[0] += seconds(lambda: learned.append(update(*args, **options)), process_time)
        return learned[0]

    def turn() -> float:
        spent[0] = 0.0
        run.live(ROLLOUT)
        return 1e3 * spent[0] * BATCH / ROLLOUT

    run.agent.update = timed
    return learner, turn


def of_stack(asked: Asked, way: str) -> Turns:
    methods = [method for method in METHODS if method != "chain"]  # which needs a policy and values
    return side_by_side(asked, lambda hooks: stack_with(hooks, way, 5 if asked.small else 60), methods)


def stack_with(hooks: Sequence[str], way: str, updates: int) -> tuple[Learner, Callable[[], float]]:
    stack = subjects.Stacked(way == "on", hooks=lambda model: driver(hooks, model.learner))
    return stack.work.model.learner, lambda: 1e3 * seconds(lambda: stack(updates), process_time) / updates


def side_by_side(
    asked: Asked, build: Callable[[Sequence[str]], tuple[Learner, Callable[[], float]]], methods: Sequence[str]
) -> Turns:
    """Return turns without a hook and with each, beside the floor of what each adds."""
    learner, plain = build(())
    plain()  # the probe is of what was seen
    floor = Floor(learner)

    def turn(call: Callable[[], float], least: float) -> Turn:
        return lambda: {"an update": call(), "its floor": least}

    found: dict[str, Turn] = {"no hook": lambda: {"an update": plain()}}
    for method in methods[: 2 if asked.small else None]:
        found[method] = turn(build((method,))[1], floor.of(method))
    return found


class Floor:
    """Milliseconds of what methods cannot do without on one learner: passes over all parameters (of a += b), sorts and
    draws, products of a matrix and a vector, forward and backward passes."""

    def __init__(self, learner: Learner) -> None:
        parameters = [p.detach() for p in learner.module.parameters()]
        others = [torch.randn_like(p) for p in parameters]
        matrices = [p.flatten(1 + layer.stacked) for layer in learner.layers for p in [layer.weight.detach()]]
        vectors = [torch.randn(*matrix.shape[:-2], 1, matrix.shape[-1]) for matrix in matrices]

        def timed(call: Callable[[], object]) -> float:
            call()
            return 1e3 * median(seconds(call, process_time) for _ in range(30))

        self.one = timed(lambda: torch._foreach_add_(others, parameters, alpha=1e-9))
        rows = max(1, learner.members)
        self.sort = timed(lambda: [row.sort() for p in parameters for row in p.reshape(rows, -1).view(torch.int32)])
        self.draw = timed(learner.redraw)
        self.product = timed(lambda: [v @ m.mT for m, v in zip(matrices, vectors, strict=True)])
        self.gram = timed(lambda: [m @ m.mT if m.shape[-1] > m.shape[-2] else m.mT @ m for m in matrices])
        inputs = learner.probe()
        assert inputs is not None
        few = [each[..., :BATCH, :] if isinstance(each, Tensor) else each for each in inputs]
        trained = list(learner.trained().values())

        def forward() -> Tensor:
            outputs = learner.module(*few)
            return sum(each.sum() for each in (outputs if isinstance(outputs, tuple) else (outputs,)))

        self.forward = timed(forward)
        self.forward_backward = timed(lambda: torch.autograd.grad(forward(), trained, allow_unused=True))

    def of(self, method: str) -> float:
        """Return the floor of a method, in milliseconds."""
        return {
            "trac": 4 * self.one,  # ⟨g, δ⟩; θ kept; δ + Δ; θ_ref + S·δ
            "parseval": 2 * self.gram,  # of the term, and of its gradient
            "spectral": 3 * self.product + self.one,
            "wasserstein": self.sort + self.one,
            "chain": self.one + self.forward + self.forward_backward,
            "soft_snp": self.draw + self.one,
        }.get(method, self.one)


def idle(asked: Asked) -> Turns:
    """Return turns without hooks, and with hooks that fire at the end or on a metric that never gets there."""
    found: dict[str, Turn] = {}
    for name, hooks in {"no hooks": (), "waiting": ("fire@1.0", "fire@when:dormant_fraction>0.999")}.items():
        run = subjects.ppo(rollout_steps=32 if asked.small else 256, compile="off")
        run.hooks, steps = driver(hooks, run.work.learners["agent"]), 8 * (32 if asked.small else 1_024)

        def turn(run: SteppedAgent = run, steps: int = steps) -> dict[str, float]:
            taken = seconds(lambda: run.live(steps))
            alone = seconds(lambda: [run.hooks.after_steps(0, 1) for _ in range(1_000)])
            return {"a step": 1e6 * taken / steps, "the driver's call alone": 1e3 * alone}

        found[name] = turn
    return found


# -- denormal numbers -------------------------------------------------------------------------------------------------


def denormals(asked: Asked) -> Turns:
    """Return turns with living and with dead units: of Adam alone, on slots that are all denormal, and of agents.

    A third of the units of every hidden layer is dead: biases of −100, and slots as far decayed as they get where
    denormal numbers are kept (β·m is rounded to m in the end).
    """
    threads: dict[str, Any] = {"threads": asked.threads}
    makers: dict[str, tuple[Callable[[], SteppedAgent], int]] = {
        "PPO": (lambda: subjects.ppo(activation="relu", compile="off", rollout_steps=256, **threads), 2_048),
        "DQN": (lambda: subjects.dqn(asked.threads, learning_starts=100, replay_size=10_000), 64),
        "SAC": (lambda: SteppedAgent("sac", subjects.sac_settings(compile="off", learning_starts=100, **threads)), 100),
    }
    if asked.small:
        del makers["DQN"], makers["SAC"]

    def turns(dead: bool) -> Turn:
        adam = time_adam(dead)
        agents = {f"{name}, updating of a step": updating(*maker, dead) for name, maker in makers.items()}
        return lambda: {"100 fused steps of Adam": adam(), **{name: call() for name, call in agents.items()}}

    return {"alive": turns(False), "dead": turns(True)}


def updating(make: Callable[[], SteppedAgent], steps: int, dead: bool) -> Callable[[], float]:
    run = make()
    run.live(4 * steps)
    for learner in run.agent.learners.values() if dead else ():
        kill_units(learner)
    run.live(steps)
    return lambda: 1e3 * run.live(steps)["updating"] / steps


def time_adam(dead: bool) -> Callable[[], float]:
    parameter = torch.ones(400_000, requires_grad=True)
    parameter.grad = torch.zeros_like(parameter)
    optimizer = torch.optim.Adam([parameter], fused=True)
    optimizer.step()
    for name in ("exp_avg", "exp_avg_sq"):
        optimizer.state[parameter][name].fill_(TINY if dead else 1.0)
    return lambda: 1e3 * seconds(lambda: [optimizer.step() for _ in range(100)])


@torch.no_grad()
def kill_units(learner: Learner) -> None:
    """Let a third of the units before every activation be dead, and long so."""
    named = dict(learner.module.named_parameters())
    assert learner.optimizer is not None
    for layer in set(chain.from_iterable(wiring.incoming for wiring in learner.wiring.values())):
        weight, bias = named[f"{layer}.weight"], named[f"{layer}.bias"]
        axis = bias.ndim - 1  # that of the units; a stack has an axis before it
        bias.narrow(axis, 0, bias.shape[axis] // 3).fill_(-100.0)
        for parameter in (weight, bias):
            slots = learner.optimizer.state[parameter]
            for slot in (slots["exp_avg"], slots["exp_avg_sq"]):
                slot.narrow(axis, 0, slot.shape[axis] // 3).fill_(TINY)
