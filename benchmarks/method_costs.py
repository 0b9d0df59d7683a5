"""What does each method that acts at every update cost? One more hook beside plain training, in pairs.

    python benchmarks/method_costs.py [--rounds 9] [--methods trac,spectral] [--compile] [--threads 1]

Two places: PPO on HalfCheetah's sizes, 3 × 256 tanh, minibatches of 64 (an update is one gradient step, with its
minibatch; environments do not count), and random-label classification by five seeds of the MLP 784-100-100-10 as one
stack, batch 16. The images are random bytes, which cost what others do. In each round a run without hooks and one with
the hook take turns, the first of them alternating; the ratio is of each pair, and its median and range are of the
rounds. Times are of the processor, so that neighbours count only where they take its caches.

The floor is what the method cannot do without, timed in the same process: its passes over all parameters (of a += b),
its sorts and draws, its products of a matrix and a vector, its forward and backward passes. Criteria: TRAC at most 1.3
× the plain update; the penalties at most 1.15 ×.

Without `--compile` both are eager. With it both are as in a run, where PPO's steps with most of these hooks are eager
all the same, since something comes between a gradient and its step.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import process_time
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.table import Table
from seeds_stacked import SEEDS, Stacked, random_bytes
from stepped import SteppedAgent
from timing import Options, Rounds, begin, seconds
from torch import Tensor

from supple.agents.ppo import PPOSettings
from supple.engine.hooks.driver import HookDriver
from supple.interventions import Learner, parse_hook
from supple.networks.members import members_of
from supple.tracks.vision.update import Update

BARS = {"trac": 1.3, **dict.fromkeys(("l2_init", "l2_er", "parseval", "spectral", "wasserstein", "chain"), 1.15)}
METHODS = (*BARS, "cpr", "soft_snp(toward=initial)", "soft_snp", "upgd", "hare_tortoise@every:1_000_000_000")
BATCH = 64  # of PPO
EPOCHS = 1  # of PPO's batch of 2,048 in a turn: 32 gradient steps
STEPS = 2048


@dataclass(frozen=True)
class Args(Options):
    rounds: int = 9  # pairs
    methods: tuple[str, ...] = METHODS  # hooks
    where: tuple[str, ...] = ("ppo", "classifiers")  # of these
    compile: bool = False  # both as in a run
    threads: int = 1


class OfPPO:
    """A run of PPO with these hooks: milliseconds of a gradient step."""

    def __init__(self, hooks: Sequence[str], compiled: bool) -> None:
        settings = PPOSettings(
            env="halfcheetah", hidden=(256, 256, 256), epochs=EPOCHS, minibatch_size=BATCH, steps=10**9, device="cpu",
            compile="on" if compiled else "off",
        )  # fmt: skip
        self.stepped = SteppedAgent("ppo", settings)
        self.learner = self.stepped.work.learners["agent"]
        self.stepped.hooks = driver(hooks, self.learner)
        self.updates = EPOCHS * STEPS // BATCH
        self.spent, update = 0.0, self.stepped.agent.update

        def timed(*args: Any, **options: Any) -> bool:
            started = process_time()
            learned = update(*args, **options)
            self.spent += process_time() - started
            return learned

        self.stepped.agent.update = timed

    def __call__(self) -> float:
        self.spent = 0.0
        self.stepped.live(STEPS)
        return 1e3 * self.spent / self.updates


class OfClassifiers:
    """Five stacked classifiers with these hooks: milliseconds of a gradient step."""

    def __init__(self, hooks: Sequence[str], compiled: bool, updates: int = 60) -> None:
        self.stack = Stacked(random_bytes(), compiled)
        self.learner = self.stack.work.model.learner
        self.stack.update = Update(self.stack.work.model, driver(hooks, self.learner), compiled)
        self.updates = updates

    def __call__(self) -> float:
        return 1e3 * seconds(lambda: [self.stack() for _ in range(self.updates)], process_time) / self.updates


PLACES: dict[str, Callable[[Sequence[str], bool], Any]] = {"ppo": OfPPO, "classifiers": OfClassifiers}


def driver(hooks: Sequence[str], learner: Learner) -> HookDriver:
    parsed = [hook for text in hooks if (hook := parse_hook(text))]
    return HookDriver(parsed, {learner.name: learner}, lambda **_: None, 10**12)


class Floor:
    """Milliseconds of what methods cannot do without, on one learner."""

    def __init__(self, learner: Learner) -> None:
        parameters = [p.detach() for p in learner.module.parameters()]
        others = [torch.randn_like(p) for p in parameters]
        matrices = [p.flatten(1 + layer.stacked) for layer in learner.layers for p in [layer.weight.detach()]]
        vectors = [torch.randn(*matrix.shape[:-2], 1, matrix.shape[-1]) for matrix in matrices]

        def timed(call: Callable[[], object]) -> float:
            call()
            return 1e3 * median(seconds(call, process_time) for _ in range(30))

        self.one = timed(lambda: torch._foreach_add_(others, parameters, alpha=1e-9))
        rows = max(1, members_of(learner))
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
        """Return the floor of a method, in milliseconds: its passes, and what else it needs."""
        return {
            "trac": 4 * self.one,  # ⟨g, δ⟩; θ kept; δ + Δ; θ_ref + S·δ
            "l2_init": self.one,
            "parseval": 2 * self.gram,  # of the term, and of its gradient
            "spectral": 3 * self.product + self.one,
            "wasserstein": self.sort + self.one,
            "chain": self.one + self.forward + self.forward_backward,
            "cpr": self.one,
            "soft_snp": self.draw + self.one,
        }.get(method.partition("@")[0], self.one)


@dataclass
class Race:
    """One method beside plain training."""

    plain: Rounds = field(default_factory=lambda: Rounds(3))
    hooked: Rounds = field(default_factory=lambda: Rounds(3))
    ratio: Rounds = field(default_factory=lambda: Rounds(2))

    def run(self, plain: Callable[[], float], hooked: Callable[[], float], rounds: int) -> None:
        for turn in range(1 + rounds):
            order = (plain, hooked) if turn % 2 else (hooked, plain)
            took = dict(zip(order, [call() for call in order], strict=True))
            if turn:  # the first warms up
                self.plain.values.append(took[plain])
                self.hooked.values.append(took[hooked])
                self.ratio.values.append(took[hooked] / took[plain])


def main(args: Args) -> bool:
    begin(args.threads, args.flush)
    kept = True
    for where in args.where:
        build = PLACES[where]
        plain = build((), args.compile)
        table = Table(title=f"{where}, {'compiled' if args.compile else 'eager'}, {len(SEEDS)} seeds or 1 agent")
        for column in ("hook", "plain, ms", "with it, ms", "ratio (min–max)", "on top, ms", "floor, ms", "bar"):
            table.add_column(column, justify="left" if column == "hook" else "right")
        for method in args.methods:
            if method == "chain" and where == "classifiers":
                continue  # no policy and no values
            race = Race()
            race.run(plain, build((method,), args.compile), args.rounds)
            bar = BARS.get(method)
            kept &= bar is None or race.ratio.median <= bar
            floor = Floor(plain.learner).of(method)
            extra = f"{race.plain.median * (race.ratio.median - 1):.3f}"
            said = "" if bar is None else f"{bar}: {'yes' if race.ratio.median <= bar else 'NO'}"
            table.add_row(method, str(race.plain), str(race.hooked), str(race.ratio), extra, f"{floor:.3f}", said)
        Console(width=150).print(table)
    return kept


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
