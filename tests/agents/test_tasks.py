"""Task streams: the environment at each step."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.agents.tasks import EnvTask, make_tasks
from supple.envs import SEQUENCES, parse_sequence


def test_the_named_sequences_are_those_of_the_paper():
    assert SEQUENCES["cycling-text"] == ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5")
    assert SEQUENCES["cycling-tables"] == ("HalfCheetah-v5", "Humanoid-v5", "Ant-v5", "Hopper-v5")


def test_a_sequence_is_read_from_its_name_or_from_a_list():
    assert parse_sequence("cycling-tables") == SEQUENCES["cycling-tables"]
    assert parse_sequence("Hopper, ant,CartPole-v1,hopper") == (
        "Hopper-v5",
        "Ant-v5",
        "CartPole-v1",
        "Hopper-v5",
    )
    assert parse_sequence("walker2d") == ("Walker2d-v5",)


@pytest.mark.parametrize("text", ["", "hopper,", ",hopper", "hopper,,ant", " , "])
def test_empty_items_are_refused(text: str):
    with pytest.raises(ValueError, match="empty item in sequence") as error:
        parse_sequence(text)
    assert "\n" not in str(error.value)


def test_unknown_environments_are_refused():
    with pytest.raises(ValueError, match="unknown environment 'antt': did you mean 'ant'"):
        parse_sequence("hopper,antt")


def test_the_stream_repeats_the_sequence():
    assert make_tasks(("hopper", "ant"), cycles=2, steps_per_task=10) == (
        EnvTask(0, 0, 10, "Hopper-v5", "Hopper-v5", 0),
        EnvTask(1, 10, 20, "Ant-v5", "Ant-v5", 0),
        EnvTask(2, 20, 30, "Hopper-v5", "Hopper-v5", 1),
        EnvTask(3, 30, 40, "Ant-v5", "Ant-v5", 1),
    )


@settings(max_examples=50)
@given(length=st.integers(1, 4), cycles=st.integers(1, 4), steps=st.integers(1, 1000), data=st.data())
def test_every_step_belongs_to_exactly_one_task(length: int, cycles: int, steps: int, data: st.DataObject):
    envs = SEQUENCES["cycling-text"][:length]
    stream = make_tasks(envs, cycles, steps)
    assert len(stream) == length * cycles
    step = data.draw(st.integers(0, stream[-1].end - 1))
    [task] = [t for t in stream if t.start <= step < t.end]
    assert (task.index, task.cycle) == (step // steps, step // (steps * length))
    assert task.env == envs[task.index % length]
