"""Penalties, constraints and gradient-guided interventions: on stacks, across checkpoints, and several at once."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.engine.hooks.driver import HookDriver
from supple.engine.storage import checkpoint
from supple.engine.storage.learner_state import learner_state, load_learner_state
from supple.interventions import Learner, StackedLinear, learner_for, parse_hook
from supple.networks.stacked import StackedConv2d

pytestmark = pytest.mark.slow

MEMBERS, UPDATES = 3, 12
TEXTS = [
    "parseval(strength=0.1)",
    "ewc(strength=5,samples=20)",
    "ewc(strength=5,samples=20,reference=each,decay=0.9)",
    "dash@6",
    "snp(lam=0.2,noise=0.3)@6",
    "weight_clip(kappa=1.02)",
    "hare_tortoise(momentum=0.8)@every:5",
    "nap",
    "nap(norm=rms,scope=[encoder,hidden])",
    "upgd(beta=0.9,sigma=0.5)",
    "spectral(strength=0.1)",
    "wasserstein(strength=0.1)",
    "soft_snp(epsilon=0.01,toward=initial)",
    "adam_rel@every:5",
    "reset(what=optimizer)@every:5",
]
THREE = ["ewc(strength=5,samples=20)", "hare_tortoise(momentum=0.8)@every:5", "upgd(beta=0.9,sigma=0.5)"]


class Net(nn.Module):
    """Convolution, hidden layer, head: of a stack, or of one network."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self.conv = StackedConv2d(members, 1, 2, 3) if members else nn.Conv2d(1, 2, 3)
        self.one, self.two = nn.ReLU(), nn.ReLU()
        self.hidden = StackedLinear(members, 8, 5) if members else nn.Linear(8, 5)
        self.head = StackedLinear(members, 5, 3) if members else nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.two(self.hidden(self.one(self.conv(x)).flatten(-3))))


def data(task: int) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(task)
    x = torch.randn(MEMBERS, 24, 1, 4, 4, generator=source, dtype=torch.float64)
    return x, torch.randint(3, (MEMBERS, 24), generator=source)


class World:
    """A learner, stacked (`member` is None) or one of the networks, and the data that it learns from now."""

    def __init__(self, texts: list[str], member: int | None = None) -> None:
        torch.manual_seed(0)
        self.member, self.task = member, 0
        self.net = Net(MEMBERS).double()
        if member is not None:
            single = Net(0).double()
            single.load_state_dict({name: value[member] for name, value in self.net.state_dict().items()})
            self.net = single
        self.learner: Learner = learner_for(
            self.net,
            torch.optim.Adam(self.net.parameters(), lr=0.02),
            probe=lambda: (self.losses_and_inputs()[1],),
            loss=lambda: self.losses_and_inputs()[0].mean(-1).sum(),
            batches=self.batches,
        )
        generators = [torch.Generator().manual_seed(100 + k) for k in range(MEMBERS)]
        if member is None:
            self.learner.generators = tuple(generators)
        else:
            self.learner.generator = generators[member]
        hooks = [hook for hook in map(parse_hook, texts) if hook]
        self.driver = HookDriver(hooks, {"model": self.learner}, lambda **_: None, UPDATES)

    def losses_and_inputs(self, rows: slice = slice(None)) -> tuple[Tensor, Tensor]:
        x, y = data(self.task)
        x, y = (x, y) if self.member is None else (x[self.member], y[self.member])
        x, y = (x[:, rows], y[:, rows]) if self.member is None else (x[rows], y[rows])
        losses = F.cross_entropy(self.net(x).flatten(0, -2), y.flatten(), reduction="none")
        return losses.view(y.shape), x

    def batches(self, count: int | None) -> Iterator[Tensor]:
        for k in range(3 if count is None else count):
            yield self.losses_and_inputs(slice(8 * (k % 3), 8 * (k % 3) + 8))[0]

    def train(self, start: int, end: int) -> None:
        """Updates in (start, end]; a task ends after every fourth."""
        learner, driver = self.learner, self.driver
        if start == 0:
            driver.after_steps(-1, 0)
        for step in range(start, end):
            self.task = step // 4
            loss = learner.loss() + driver.penalty(learner)
            learner.optimizer.zero_grad()
            loss.backward()
            driver.before_update(learner)
            learner.optimizer.step()
            driver.after_update(learner)
            driver.after_steps(step, step + 1)
            if step % 4 == 3:
                driver.finish_task()

    def values(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.net.state_dict().items()}


@pytest.mark.parametrize("texts", [*([text] for text in TEXTS), THREE], ids=str)
def test_the_members_of_a_stack_are_trained_as_networks_of_their_own(texts):
    stack = World(texts)
    stack.train(0, UPDATES)
    plain = World([])
    plain.train(0, UPDATES)
    assert any(not torch.allclose(stack.values()[name], value) for name, value in plain.values().items())
    for member in range(MEMBERS):
        one = World(texts, member)
        one.train(0, UPDATES)
        for name, value in one.values().items():
            torch.testing.assert_close(stack.values()[name][member], value, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("texts", [*([text] for text in TEXTS), THREE], ids=str)
def test_a_run_resumed_from_a_checkpoint_equals_an_uninterrupted_one(texts, tmp_path):
    whole = World(texts)
    whole.train(0, UPDATES)
    before, after = World(texts), World(texts)
    before.train(0, 7)
    tree: dict[str, Any] = {"learner": learner_state(before.learner), "hooks": before.driver.state_dict()}
    saved = checkpoint.load(checkpoint.save(tmp_path, 7, tree, "x"), "x")
    load_learner_state(after.learner, saved["learner"])
    after.driver.load_state_dict(saved["hooks"])
    after.train(7, UPDATES)
    assert after.learner.changes == whole.learner.changes
    for name, value in whole.values().items():
        assert torch.equal(after.values()[name], value), name


def test_three_interventions_at_once_each_follow_their_equation():
    world = World(["weight_clip(kappa=1.1)", "parseval(strength=0.01)", "nap"])
    world.train(0, UPDATES)
    for layer in world.learner.layers:
        start = world.learner.initial[f"{layer.name}.weight"]
        # nap comes after clipping, so the norms are exact and the clip may be off by the rescaling
        norms = [value.flatten(1).norm(dim=1) for value in (layer.weight.detach(), start)]
        torch.testing.assert_close(*norms)
    assert world.learner.changes == ["nap"]
    plain = World(["weight_clip(kappa=1.1)", "nap"])
    plain.train(0, UPDATES)
    assert not torch.allclose(world.values()["hidden.weight"], plain.values()["hidden.weight"])


def test_protection_of_updates_does_not_undo_an_intervention_between_two_updates():
    world = World(["upgd(sigma=0)", "reset@6"])
    world.train(0, 6)
    for name, value in world.values().items():
        assert torch.equal(value, world.learner.initial[name])
    copied = copy.deepcopy(world.values())
    world.train(6, 7)
    change = max(float((world.values()[name] - value).abs().max()) for name, value in copied.items())
    assert 0 < change <= 0.02 * (1 + 1e-6)  # one protected step of Adam
