"""A stack of agents and its members alone in the same environments, to compare what becomes of them."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from supple.engine.hooks.driver import HookDriver
from supple.envs import StepResult
from supple.interventions import Learner, parse_hook

SEEDS = (3, 0, 7)
ENVS = 2  # of each member
ROWS = len(SEEDS) * ENVS


NO_HOOKS = HookDriver([], {}, lambda **_: None, 1)


def live(
    agent: Any, steps: Iterator[StepResult], count: int, hooks: HookDriver = NO_HOOKS, begin: bool = False
) -> None:
    """Let an agent act and learn for some decisions. begin: in new episodes of the task "a"."""
    if begin:
        agent.begin_task("a")
        agent.begin_episodes(next(steps).obs)
    for _ in range(count):
        agent.act()
        agent.remember(next(steps))
        agent.update(hooks, last=False)


def of_seeds(*seeds: int) -> dict[str, Any]:
    """Return the settings of an agent of one seed, or of a stack."""
    return {"seed": seeds[0], "seeds": seeds} if len(seeds) > 1 else {"seed": seeds[0]}


def rows_of(result: StepResult, member: int) -> StepResult:
    rows = slice(member * ENVS, (member + 1) * ENVS)
    return StepResult(*(value[rows] for value in result[:5]), [])


def vectors(size: int, rows: int = ROWS) -> Iterator[StepResult]:
    """Yield steps of the environments of all members, with observations (rows, size) far from those of others."""
    rng = np.random.default_rng(0)
    while True:
        final = rng.normal(size=(rows, size)) + 1_000 * (np.arange(rows) // ENVS)[:, None]  # centred by member
        terminated, truncated = rng.random((2, rows)) < 0.1
        obs = np.where((terminated | truncated)[:, None], final + 1, final)
        yield StepResult(obs, rng.normal(size=rows), terminated, truncated, final, [])


def images(size: int) -> Iterator[StepResult]:
    """Yield steps as `vectors` does, with random pixels as observations, uint8."""
    for step in vectors(size):
        pixels = [(100 * rows).astype(np.int64).astype(np.uint8) for rows in (step.obs, step.final_obs)]
        yield step._replace(obs=pixels[0], final_obs=pixels[1])


def part(value: Tensor, member: int, like: Tensor) -> Tensor:
    """Return what belongs to a member in a tensor of the stack, (members · networks, …), in the shape of its own."""
    return value.unflatten(0, (len(SEEDS), -1))[member].view(like.shape)


def attached(hooks: Sequence[str], one: Any, log: Callable[..., None] = lambda **_: None) -> HookDriver:
    parsed = [hook for text in hooks if (hook := parse_hook(text)) is not None]
    return HookDriver(parsed, one.learners, log, total=40)


class Lives:
    """A stack and its members alone, in the same environments, which do not depend on the actions.

    PyTorch's own generator, from which an agent alone draws for its activations, is that of the agent that acts.

    Args:
        make: Returns the agent of a seed, or the stack of several.
        world: The steps of the environments of all members.
    """

    def __init__(self, make: Callable[..., Any], world: Iterator[StepResult]) -> None:
        self.stack, self.alone, self.world = make(*SEEDS), [make(seed) for seed in SEEDS], world
        self.torch = [source.get_state() for source in self.stack.activations]
        self.steps = self.fired = 0  # so far, and when hooks could fire last
        self.events: list[dict[str, Any]] = []  # of hooks on the stack
        first = next(self.world)
        for one, own in ((self.stack, first), *((one, rows_of(first, i)) for i, one in enumerate(self.alone))):
            one.begin_task("a")
            one.begin_episodes(own.obs)

    def as_member(self, member: int, do: Callable[[], Any]) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.torch[member])
            result = do()
            self.torch[member] = torch.get_rng_state()
        return result

    def live(self, count: int, *hooks: str, tolerance: float = 1e-8, met: Collection[int] = ()) -> None:
        """Act and learn, with hooks that are attached to each agent.

        Args:
            count: The number of decisions.
            hooks: The texts of the hooks.
            tolerance: The largest difference between actions.
            met: The members for which `weight_norm` is measured as 1 from step 8 on. It is 0 for the others.
        """
        driven = [attached(hooks, self.stack, lambda **event: self.events.append(event))]
        driven += [attached(hooks, one) for one in self.alone]

        def update(one: Any, driver: HookDriver, *members: int) -> bool:
            if complete := one.update(driver, last=False):
                driver.after_steps(self.fired, self.steps)
                if met and self.steps >= 8:
                    norms = [float(member in met) for member in members]
                    found = [{f"{name}/weight_norm": norm for name in one.learners} for norm in norms]
                    driver.after_measurement(self.steps, *found)
            return complete

        for _ in range(count):
            result = next(self.world)
            actions = self.stack.act()
            actions = actions.reshape(len(SEEDS), ENVS, *actions.shape[1:])
            self.stack.remember(result)
            self.steps += ENVS
            complete = update(self.stack, driven[0], *range(len(SEEDS)))
            for member, one in enumerate(self.alone):
                np.testing.assert_allclose(self.as_member(member, one.act), actions[member], rtol=0, atol=tolerance)
                one.remember(rows_of(result, member))
                assert self.as_member(member, partial(update, one, driven[1 + member], member)) == complete
            if complete:
                self.fired = self.steps

    def learners(self, one: Any) -> Mapping[str, Learner]:
        """Return the learners of an agent whose networks are compared."""
        return one.learners

    def pairs(self) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Yield all tensors of networks and optimizers: those of a member, and its own alone."""
        for member, one in enumerate(self.alone):
            for name, own in self.learners(one).items():
                for what, ours, theirs in tensors_of(self.learners(self.stack)[name], own):
                    yield f"{member} {name} {what}", part(ours, member, theirs), theirs

    def compare(self, tolerance: float) -> None:
        """Require equal networks up to a relative tolerance, and equal generators."""
        for what, ours, theirs in self.pairs():
            difference = (ours - theirs).abs().max() / theirs.abs().max().clamp_min(1.0)
            assert float(difference) <= tolerance, what
        for member, one in enumerate(self.alone):
            assert torch.equal(self.stack.activations[member].get_state(), self.torch[member])
            for name, draws in one._generators().items():
                assert torch.equal(self.stack._generators()[name][member].get_state(), draws.get_state()), name
            for name, learner in self.learners(one).items():
                source = self.learners(self.stack)[name].generators[member]
                assert torch.equal(source.get_state(), learner.generator.get_state()), name

    def compare_numbers(self, tolerance: float) -> None:
        numbers = self.stack.numbers()
        for member, one in enumerate(self.alone):
            own = one.numbers()
            assert own.keys() == numbers.keys()
            for name, value in own.items():
                assert numbers[name][member] == pytest.approx(value, rel=tolerance, abs=tolerance), name


def tensors_of(stack: Learner, own: Learner) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield parameters, buffers, gradients and slots of a stack beside those of one member alone."""
    for module, single in zip((stack.module, *stack.followers), (own.module, *own.followers), strict=True):
        for key, theirs in single.state_dict().items():
            yield key, module.state_dict()[key], theirs
    assert stack.optimizer is not None
    assert own.optimizer is not None
    for key, theirs in own.module.named_parameters():
        ours = stack.module.get_parameter(key)
        if theirs.grad is not None:
            assert ours.grad is not None
            yield f"gradient of {key}", ours.grad, theirs.grad
        for slot, value in own.optimizer.state.get(theirs, {}).items():
            yield f"{slot} of {key}", stack.optimizer.state[ours][slot], value
