"""The base of the Trainers' callbacks: state belongs to the model, and measurements that fail do not end training."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.integrations.updates import Updates
from supple.interventions import learner_for

pytestmark = pytest.mark.filterwarnings("ignore:.*has not fired")
X = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))


class Loop:
    """A training loop of a network that does not learn. Each training counts its steps from 0."""

    def __init__(self, *hooks: str, measure_every: int = 0) -> None:
        torch.manual_seed(0)
        self.net, self.inputs = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), X
        self.callback = Updates(hooks, measure_every, None, 0, self.build)

    def build(self, net: Any, optimizer: Any, recent: Any) -> Any:
        return learner_for(
            net, optimizer, probe=recent, loss=lambda: net(*recent()).mean(), batches=lambda _: iter([net(X).mean(1)])
        )

    def train(self, steps: int, saved: Any = None, begin: int = 0) -> Iterator[dict[str, float]]:
        self.callback.begin(self.net, torch.optim.SGD(self.net.parameters(), 0), steps, begin, saved)
        for step in range(begin + 1, steps + 1):
            self.callback._batch = (self.inputs,)
            yield self.callback.reach(step)
        self.callback.end()

    @property
    def events(self) -> list[int]:
        return [event["step"] for event in self.callback.events]

    @property
    def weight(self) -> Tensor:
        return self.net.get_parameter("0.weight").detach().clone()


def test_steps_and_step_0_are_those_of_the_model_in_all_trainings_of_it() -> None:
    loop, again = (Loop("reset@task", "reset(what=optimizer)@every:3") for _ in range(2))
    start = loop.weight
    for _ in range(3):
        loop.callback.new_task()  # nothing before the first training
        list(loop.train(2))
        if not loop.events:
            nn.init.ones_(loop.net.get_parameter("0.weight"))
    assert loop.events == [2, 3, 4, 6]
    assert torch.equal(loop.weight, start)
    list(again.train(5, saved=loop.callback.state(), begin=2))  # the third training, in another process
    assert again.events == [9]


def test_a_task_switch_fires_before_the_next_update_and_consolidates_the_task_that_ends() -> None:
    loop = Loop("reset@task", "ewc")
    for number, _ in enumerate(loop.train(4), 1):
        if number == 2:
            loop.callback.new_task()
            assert loop.events == [2]
    assert loop.events == [2]
    assert loop.callback.state()["hooks"]["ewc"]["intervention"]["fisher"]


@pytest.mark.parametrize(("hooks", "measure_every"), [((), 9), (("snp@2",), 0)])
def test_a_network_that_cannot_be_measured_is_refused_on_the_first_batch(hooks: Any, measure_every: int) -> None:
    loop = Loop(*hooks, measure_every=measure_every)
    loop.inputs = X[:, :2]
    with pytest.raises(ValueError, match=r"'model' cannot be measured .*SuppleCallback\(learner=") as refusal:
        next(loop.train(9))
    assert "\n" not in str(refusal.value)


def test_a_measurement_that_fails_later_is_told_once_and_training_goes_on() -> None:
    loop, found = Loop(measure_every=1), []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for number, numbers in enumerate(loop.train(5), 1):
            found.append(bool(numbers))
            loop.inputs = X[:, :2] if number in (1, 2) else X
    assert found == [True, False, False, True, True]
    assert ["at step 2" in str(each.message) for each in told] == [True]
