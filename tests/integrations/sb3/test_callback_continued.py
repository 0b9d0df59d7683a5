"""Models that are saved, loaded and trained further, with the callback's state, with the same callback or a new one."""

import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch

pytest.importorskip("stable_baselines3")

from stable_baselines3 import DQN, PPO, SAC

from supple.agents.sb3 import SuppleCallback
from tests.integrations.sb3.twins import IDS, small, tensors

pytestmark = pytest.mark.slow

HOOKS = [
    "l2_init(strength=0.1)", "snp(noise=0.1)@every:32", "fire(method=polar)@0.5", "snp@task:2", "snp@start",
    "upgd(sigma=0.01)", "snp@when:weight_norm>0",
]  # fmt: skip


def on(kind: Any, folder: Path, callback: SuppleCallback) -> tuple[list[torch.Tensor], list[tuple[Any, ...]]]:
    """Load the model and continue to train it. Return its tensors afterwards, and the new events."""
    before = len(callback.events)
    again = kind.load(folder / "model", env=gym.make(IDS[kind]), device="cpu")
    callback.new_task()
    again.learn(64, callback=callback, reset_num_timesteps=False)
    return tensors(again.get_parameters()), [(e["step"], e["hook"], str(e["after"])) for e in callback.events[before:]]


@pytest.mark.filterwarnings("ignore:.*has not fired")
@pytest.mark.parametrize("kind", [PPO, DQN, SAC])
def test_with_its_state_a_new_callback_continues_as_the_old_one_would(kind: Any, tmp_path: Path) -> None:
    callback = SuppleCallback(HOOKS, measure_every=16)
    model = small(kind)
    model.learn(32, callback=callback)
    callback.new_task()
    model.learn(32, callback=callback, reset_num_timesteps=False)
    model.save(tmp_path / "model")
    torch.save(callback.state_dict(), tmp_path / "callback.pt")
    same = on(kind, tmp_path, callback)  # the very callback

    new = SuppleCallback(HOOKS, measure_every=16)
    new.load_state_dict(torch.load(tmp_path / "callback.pt", weights_only=True))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*does not fire")
        ours, events = on(kind, tmp_path, new)
    assert all(map(torch.equal, ours, same[0]))
    assert events == same[1]
    hooks = {hook for _, hook, _ in events}
    assert hooks == {"snp(noise=0.1)@every:32", "snp@task:2"}  # the others have fired
    third = SuppleCallback([], measure_every=0)
    assert not all(map(torch.equal, on(kind, tmp_path, third)[0], ours))


def test_what_a_state_holds_does_not_change_while_training_goes_on() -> None:
    callback, model = SuppleCallback(HOOKS, measure_every=16), small(SAC)
    model.learn(32, callback=callback)
    state = callback.state_dict()
    kept = tensors(state)
    assert {"actor", "critic", "temperature"} == state["learners"].keys()
    model.learn(32, callback=callback, reset_num_timesteps=False)
    assert all(map(torch.equal, tensors(state), kept))


def test_a_new_callback_without_state_warns_of_what_lies_behind_it_and_goes_on(tmp_path: Path) -> None:
    small(PPO).learn(64).save(tmp_path / "model")
    callback = SuppleCallback(["fire@0.25", "snp@0.75", "fire@8"], measure_every=0)
    with pytest.warns(UserWarning, match="does not fire: learning continues at step 64 of 128") as told:
        _, events = on(PPO, tmp_path, callback)
    assert sorted(str(each.message).split()[0] for each in told) == ["fire@0.25", "fire@8"]
    assert [(step, hook) for step, hook, _ in events] == [(96, "snp@0.75")]


def test_another_model_with_as_many_steps_is_no_copy() -> None:
    callback, one, two = SuppleCallback(["snp@start"], measure_every=0), small(PPO), small(PPO)
    two.learn(64)
    with torch.no_grad():
        next(iter(two.policy.parameters())).add_(1.0)
    one.learn(64, callback=callback)
    two.learn(64, callback=callback, reset_num_timesteps=False)
    assert [event["step"] for event in callback.events] == [0, 64]
    assert torch.equal(tensors(callback.state_dict()["learners"])[0], tensors(callback.learners["policy"].initial)[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state, model: state.update(seen=32), "is of step 32, but learning begins at step 64"),
        (lambda state, model: state.update(learners={}), "another algorithm: 'policy'"),
        (
            lambda state, model: state["learners"]["policy"]["initial"].update({"action_net.bias": torch.ones(7)}),
            "of shape .7,.",
        ),
        (lambda state, model: state["changes"]["policy"].append("muon"), "'policy' was changed by muon"),
    ],
)
def test_a_state_that_is_not_the_models_is_refused_in_one_line(change: Any, message: str, tmp_path: Path) -> None:
    callback, model = SuppleCallback(["snp@every:32"], measure_every=0), small(PPO)
    with pytest.raises(RuntimeError, match="no state before the first learn"):
        callback.state_dict()
    model.learn(64, callback=callback)
    model.save(tmp_path / "model")
    state: Any = callback.state_dict()
    change(state, model)
    new = SuppleCallback(["snp@every:32"], measure_every=0)
    new.load_state_dict(state)
    with pytest.raises(ValueError, match=message) as refusal:
        on(PPO, tmp_path, new)
    assert "\n" not in str(refusal.value)
    with pytest.raises(ValueError, match=r"state\.start is missing"):
        new.load_state_dict({})
