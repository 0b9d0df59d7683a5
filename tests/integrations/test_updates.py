"""The base of the Trainers' callbacks: state belongs to the model, and measurements that fail do not end training."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from supple.integrations.updates import Updates
from supple.interventions import learner_for

pytestmark = pytest.mark.filterwarnings("ignore:.*has not fired")
X = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))


class Loop:
    """A training loop of a network that does not learn. Each training counts its steps from 0."""

    def __init__(self, *hooks: str, measure_every: int = 0) -> None:
        self.net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        self.inputs: dict[int, torch.Tensor] = {}  # of single steps, in place of X
        self.callback = Updates(hooks, measure_every, None, 0, self.build)

    def build(self, net: Any, optimizer: Any, recent: Any) -> Any:
        return learner_for(
            net, optimizer, probe=recent, loss=lambda: net(*recent()).mean(), batches=lambda _: iter([net(X).mean(1)])
        )

    def train(self, steps: int, saved: Any = None, begin: int = 0) -> Iterator[dict[str, float]]:
        self.callback.begin(self.net, torch.optim.SGD(self.net.parameters(), 0), steps, begin, saved)
        for step in range(begin + 1, steps + 1):
            self.callback._batch = (self.inputs.get(step, X),)
            yield self.callback.reach(step)
        self.callback.end()


def steps(loop: Loop) -> list[int]:
    return [event["step"] for event in loop.callback.events]


def test_steps_and_step_0_are_those_of_the_model_in_all_trainings_of_it() -> None:
    loop, again = (Loop("reset@task", "reset(what=optimizer)@every:3") for _ in range(2))
    weight = loop.net.get_parameter("0.weight")
    start = weight.detach().clone()
    for _ in range(3):
        loop.callback.new_task()  # nothing before the first training
        list(loop.train(2))
        if not loop.callback.events:
            nn.init.ones_(weight)
    assert steps(loop) == [2, 3, 4, 6]
    assert torch.equal(weight, start)
    list(again.train(5, saved=loop.callback.state(), begin=2))  # the third training, in another process
    assert steps(again) == [9]


def test_a_task_switch_fires_before_the_next_update_and_consolidates_the_task_that_ends() -> None:
    loop = Loop("reset@task", "ewc")
    for number, _ in enumerate(loop.train(4), 1):
        if number == 2:
            loop.callback.new_task()
            assert steps(loop) == [2]
    assert steps(loop) == [2]
    assert loop.callback.state()["hooks"]["ewc"]["intervention"]["fisher"]
    later = Loop("reset@task", "ewc")
    later.callback.new_task()  # in a process that has no data of the task that ended
    with pytest.raises(ValueError, match="ewc needs the data of the task that ends"):
        list(later.train(5, saved=loop.callback.state(), begin=4))


@pytest.mark.parametrize(("hooks", "measure_every"), [((), 9), (("snp@2",), 0)])
def test_a_network_that_cannot_be_measured_is_refused_on_the_first_batch(hooks: Any, measure_every: int) -> None:
    loop = Loop(*hooks, measure_every=measure_every)
    loop.inputs = {1: X[:, :2]}
    with pytest.raises(ValueError, match=r"'model' cannot be measured .*SuppleCallback\(learner=") as refusal:
        next(loop.train(9))
    assert "\n" not in str(refusal.value)


def test_a_measurement_that_fails_later_is_told_once_and_training_goes_on() -> None:
    loop = Loop(measure_every=1)
    loop.inputs = dict.fromkeys((2, 3), X[:, :2])
    with pytest.warns(UserWarning, match="at step 2 and perhaps later") as told:
        assert [bool(numbers) for numbers in loop.train(5)] == [True, False, False, True, True]
    assert sum(each.category is UserWarning for each in told) == 1
