"""Several interventions at once."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.engine.hooks.driver import HookDriver
from supple.interventions import Learner, learner_for, parse_hook

pytestmark = pytest.mark.slow

UPDATES = 12


class World:
    """A network that learns one task after another, and its hooks."""

    def __init__(self, texts: list[str]) -> None:
        torch.manual_seed(0)
        layers = {"hidden": nn.Linear(6, 5), "unit": nn.ReLU(), "head": nn.Linear(5, 3)}
        self.net = nn.Sequential()
        for name, layer in layers.items():
            self.net.add_module(name, layer.double())
        self.x, self.y = torch.randn(3, 24, 6, dtype=torch.float64), torch.randint(3, (3, 24))
        self.task = 0
        self.learner: Learner = learner_for(
            self.net,
            torch.optim.Adam(self.net.parameters(), lr=0.02),
            probe=lambda: (self.x[self.task],),
            loss=lambda: F.cross_entropy(self.net(self.x[self.task]), self.y[self.task]),
        )
        hooks = [hook for hook in map(parse_hook, texts) if hook]
        self.driver = HookDriver(hooks, {"model": self.learner}, lambda **_: None, UPDATES)

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


def test_three_interventions_at_once_each_follow_their_equation():
    world = World(["weight_clip(kappa=1.1)", "parseval(strength=0.01)", "nap"])
    world.train(0, UPDATES)
    for layer in world.learner.layers:
        start = world.learner.initial[f"{layer.name}.weight"]
        # nap comes after clipping, so the norms are exact and the clip may be off by the rescaling
        norms = [value.norm() for value in (layer.weight.detach(), start)]
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
    copied = world.values()
    world.train(6, 7)
    change = max(float((world.values()[name] - value).abs().max()) for name, value in copied.items())
    assert 0 < change <= 0.02 * (1 + 1e-6)  # one protected step of Adam
