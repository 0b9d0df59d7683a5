"""Hooks and metrics in real Stable-Baselines3 runs."""

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("stable_baselines3")

from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EvalCallback, EveryNTimesteps
from stable_baselines3.common.logger import configure

from supple.agents.sb3 import SuppleCallback, learners_of
from supple.interventions import restructure
from supple.metrics import cheap_metrics, dfi_unscaled
from tests.integrations.sb3.twins import ALGORITHMS, IDS, require_undisturbed, require_unharmed, small, tensors

pytestmark = pytest.mark.slow

FIRE = "fire(method=polar)"
POLICIES = [PPO, DQN, SAC, TD3]


def slots(learner: Any) -> dict[tuple[str, str], Tensor]:
    named = learner.module.named_parameters()
    return {(name, key): value for name, p in named for key, value in learner.optimizer.state[p].items()}


def texts(told: pytest.WarningsRecorder) -> list[str]:
    """Return what users are told, without Python's warnings of files that other tests left open."""
    return [str(each.message) for each in told if each.category is UserWarning]


class Look(BaseCallback):
    """Calls a function when a rollout begins; after the callback before it in the list."""

    def __init__(self, look: Any) -> None:
        super().__init__()
        self.look = look

    def _on_rollout_start(self) -> None:
        self.look(self.num_timesteps)

    def _on_step(self) -> bool:
        return True


@pytest.mark.parametrize("kind", POLICIES)
def test_fire_makes_isometries_settles_optimizers_in_place_and_targets_follow(kind: Any) -> None:
    model = small(kind)
    callback = SuppleCallback([f"{FIRE}@64"], measure_every=0)
    seen, pointers = [], {}

    def look(step: int) -> None:
        if step < 64 and all(slots(each) for each in callback.learners.values()):
            for name, each in callback.learners.items():
                pointers[name] = {key: value.data_ptr() for key, value in slots(each).items()}
        if step != 64:
            return
        for name, each in callback.learners.items():
            assert each.layers
            assert all(dfi_unscaled(layer.weight) < 1e-8 for layer in each.layers)
            for (parameter, key), value in slots(each).items():
                assert value.data_ptr() == pointers[name][parameter, key]
                assert bool(value.any()) == parameter.endswith(("bias", "log_std")) or "log_std." in parameter
            for follower in each.followers:
                assert all(map(torch.equal, follower.parameters(), each.module.parameters()))
        seen.append(step)

    model.learn(96, callback=[callback, Look(look)])
    assert seen == [64]
    assert [event["learner"] for event in callback.events] == list(callback.learners)


def test_a_prefix_names_the_only_learner_that_is_touched() -> None:
    callback = SuppleCallback(["critic/fire@0.5", "actor/l2_init(strength=0.1)"], measure_every=0)
    small(SAC).learn(64, callback=callback)
    assert [event["learner"] for event in callback.events] == ["critic"]


def test_hooks_act_at_the_first_rollout_of_their_steps_and_at_the_end_and_none_stays_on_the_optimizer() -> None:
    callback = SuppleCallback(["snp@start", "snp@every:48", "fire@1.0", "l2_init"], measure_every=0)
    small(PPO).learn(128, callback=callback)
    steps = [(event["step"], event["hook"]) for event in callback.events]
    assert steps == [(0, "snp@start"), (64, "snp@every:48"), (96, "snp@every:48"), (128, "fire@1.0")]
    assert not callback.learners["policy"].optimizer._optimizer_step_pre_hooks


def test_a_penalty_adds_its_gradient_as_part_of_the_loss_would() -> None:
    rate, strength = 0.1, 0.3
    sgd = {"optimizer_class": torch.optim.SGD}
    model = small(DQN, learning_rate=rate, gradient_steps=1, max_grad_norm=0.0, policy_kwargs=sgd)
    callback = SuppleCallback([f"l2_init(strength={strength})"], measure_every=0)
    offset, steps = 0.5, []

    def look(step: int) -> None:
        weight = model.q_net.q_net[0].weight
        steps.append((weight - callback.learners["q"].initial["q_net.0.weight"]).mean().item())
        if step == 0:
            weight.data += offset

    model.learn(40, callback=[callback, Look(look)])
    # the loss' own gradient is clipped to nothing: each update leaves (1 − 2·rate·strength) of the offset
    expected = [offset * (1 - 2 * rate * strength) ** n for n in (0, 0, 1, 2)]
    assert steps[1:] == pytest.approx(expected[: len(steps) - 1], rel=1e-4)


def test_a_condition_uses_the_measurements_and_warns_if_it_was_never_met() -> None:
    hooks = [f"{FIRE}@when:critic/weight_norm>0", "snp@when:srank<0", "fire@task"]
    callback = SuppleCallback(hooks, measure_every=32)
    with pytest.warns(UserWarning, match="has not fired") as told:
        small(SAC).learn(64, callback=callback)
    assert {(event["step"], event["learner"]) for event in callback.events} == {(32, "actor"), (32, "critic")}
    assert texts(told) == [
        "snp@when:srank<0.0 has not fired: its condition was never met",
        "fire@task has not fired: the run has 0 task switches",
    ]


def test_hooks_continue_over_several_calls_of_learn() -> None:
    hooks = ["snp@every:40", "fire@16", "snp@start", "fire@72", "snp@97"]
    model, callback = small(DQN), SuppleCallback(hooks, measure_every=0)
    initial, unfired = [], []
    for _ in range(3):
        with pytest.warns(UserWarning, match="has not fired") as told:
            model.learn(32, callback=callback, reset_num_timesteps=False)
        initial.append(callback.learners["q"].initial)
        unfired.append([text.split()[0] for text in texts(told)])
    assert unfired == [["snp@every:40", "fire@72", "snp@97"], ["fire@72", "snp@97"], ["snp@97"]]
    assert [(event["step"], event["hook"]) for event in callback.events] == [
        (0, "snp@start"),
        (16, "fire@16"),
        (40, "snp@every:40"),
        (72, "fire@72"),
        (80, "snp@every:40"),
    ]
    assert initial[0] is initial[2]
    fractions = SuppleCallback(["fire@0.75"], measure_every=0)
    model.learn(96, callback=fractions, reset_num_timesteps=False)
    assert [event["step"] for event in fractions.events] == [144]  # of 192: what was learned before counts


def test_hooks_remember_units_and_count_updates_over_several_calls_of_learn() -> None:
    model, callback = small(DQN), SuppleCallback(["cbp", "snr", "cpr", "l2_er"], measure_every=0)
    for _ in range(2):
        model.learn(32, callback=callback, reset_num_timesteps=False)
    *units, counted = [hook.intervention.state_dict()["q"] for hook in callback.hooks]
    assert {model._n_updates} == {counted, *(memory["updates"] for memory in units)}


class Stops(BaseCallback):
    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def _on_step(self) -> bool:
        if self.num_timesteps == self.at:
            raise KeyboardInterrupt
        return True


@pytest.mark.parametrize("kind", [PPO, SAC])
def test_hooks_continue_after_an_interrupted_learn(kind: Any) -> None:
    model, callback = small(kind), SuppleCallback(["snp@start", "fire@8", "reset@41", "snp@every:64"], measure_every=0)
    with pytest.raises(KeyboardInterrupt):
        model.learn(96, callback=[callback, Stops(41)])
    before = [event["hook"] for event in callback.events]
    assert before == [hook for hook in ["snp@start", "fire@8"] for _ in callback.learners]
    model.learn(96 - 41, callback=callback, reset_num_timesteps=False)
    after = [event["hook"] for event in callback.events[len(before) :]]
    assert after == [hook for hook in ["reset@41", "snp@every:64"] for _ in callback.learners]


def test_a_condition_can_be_met_again_for_another_model() -> None:
    callback = SuppleCallback(["snp@when:weight_norm>0"], measure_every=16)
    for _ in range(2):
        small(PPO).learn(64, callback=callback)
    assert [event["step"] for event in callback.events] == [32, 32]


def test_a_callback_inside_an_event_callback_is_refused() -> None:
    with pytest.raises(ValueError, match="does not work inside EveryNTimesteps"):
        small(SAC).learn(32, callback=EveryNTimesteps(8, SuppleCallback(["fire@0.5"])))
    best = EvalCallback(gym.make("Pendulum-v1"), callback_on_new_best=SuppleCallback(["fire@0.5"]))
    with pytest.raises(ValueError, match="does not work inside EvalCallback"):
        small(SAC).learn(32, callback=best)


def test_beside_another_callback_hooks_that_change_the_network_or_optimizer_are_refused() -> None:
    for hooks in (["injection@16"], []), ([], ["injection@16"]):
        both = CallbackList([SuppleCallback(each, measure_every=8) for each in hooks])
        with pytest.raises(ValueError, match=r"injection@16 changes the network .*: give all hooks to one"):
            small(DQN).learn(32, callback=[CallbackList([both])])


def test_two_callbacks_add_their_penalties() -> None:
    ends = []
    for strengths in ([0.2], [0.1, 0.1]):
        model = small(PPO)
        model.learn(64, callback=[SuppleCallback([f"l2_init(strength={s})"], measure_every=0) for s in strengths])
        ends.append(torch.cat([p.detach().flatten() for p in model.policy.parameters()]))
    torch.testing.assert_close(*ends)


@pytest.mark.parametrize("kind", [PPO, SAC])
def test_networks_and_optimizers_that_the_user_replaced_are_used(kind: Any) -> None:
    model, callback = small(kind), SuppleCallback([f"{FIRE}@every:32", "l2_init(strength=0.1)"], measure_every=16)
    model.learn(32, callback=callback)
    owner = model.policy if kind is PPO else model.actor
    owner.optimizer = optimizer = torch.optim.SGD(owner.parameters(), lr=1e-3)
    model.learn(32, callback=callback, reset_num_timesteps=False)
    assert owner.optimizer is optimizer
    assert optimizer in [learner.optimizer for learner in callback.learners.values()]
    model.policy = model.policy_class(
        model.observation_space, model.action_space, model.lr_schedule, **model.policy_kwargs
    )
    if kind is SAC:
        model._create_aliases()
    before = torch.cat([p.detach().flatten() for p in model.policy.parameters()])
    model.learn(32, callback=callback, reset_num_timesteps=False)
    parts = set(model.policy.modules())
    assert all(learner.module in parts for learner in callback.learners.values())
    assert not torch.equal(before, torch.cat([p.detach().flatten() for p in model.policy.parameters()]))


def test_after_an_interruption_another_callback_acts_alone() -> None:
    model, first, second = small(PPO), SuppleCallback(["l2_init"]), SuppleCallback(["l2_init"])
    with pytest.raises(KeyboardInterrupt):
        model.learn(64, callback=[first, Stops(1)])
    with pytest.warns(UserWarning, match="of an interrupted learn.. no longer acts"):
        model.learn(64, callback=second, reset_num_timesteps=False)
    assert not model.policy.optimizer._optimizer_step_pre_hooks


def test_a_new_task_is_announced_after_its_environment_is_set() -> None:
    model, callback = small(SAC), SuppleCallback(["fire@task", "snp@task:2"], measure_every=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*has not fired")
        for _ in range(3):
            model.set_env(gym.make("Pendulum-v1"))
            callback.new_task()
            model.learn(16, callback=callback, reset_num_timesteps=False)
    critics = [(event["step"], event["hook"]) for event in callback.events if event["learner"] == "critic"]
    assert critics == [(16, "fire@task"), (32, "fire@task"), (32, "snp@task:2")]


def test_metrics_reach_the_logger_and_long_names_not_its_tables(tmp_path: Path, capsys: Any) -> None:
    model = small(DQN)
    model.set_logger(configure(str(tmp_path), ["stdout", "json"]))
    model.learn(64, callback=SuppleCallback(measure_every=32))
    model.logger.close()
    lines = [json.loads(line) for line in (tmp_path / "progress.json").read_text().splitlines()]
    assert {"supple/q/srank", "supple/q/gradient_norm", "supple/q/dormant_fraction/q_net.1"} <= lines[-1].keys()
    table = capsys.readouterr().out
    assert "q/srank" in table
    assert "q_net.1" not in table


def test_events_are_kept_and_written_as_lines_of_strict_json(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "events.jsonl"
    callback = SuppleCallback(["fire@0.5", "fire@1.0"], measure_every=0, events=file, verbose=1)
    small(PPO).learn(64, callback=callback)
    assert [json.loads(line) for line in file.read_text().splitlines()] == callback.events
    assert [event["step"] for event in callback.events] == [32, 64]
    # at step 32 SB3 has emptied its buffer already: the rollout was kept
    never = ("pairs", "marked", "policy", "values")  # tanh leaves no pairs; nothing was measured before
    there = {name for name, metric in cheap_metrics().items() if metric.needs not in never}
    assert all(event["before"].keys() == there for event in callback.events)
    assert "supple: fire@0.5 on policy at step 32" in capsys.readouterr().out


def test_an_injected_model_is_loaded_into_one_with_the_same_architecture(tmp_path: Path) -> None:
    model, callback = small(DQN), SuppleCallback(["injection@0.5", "fire@0.75", "redo@1.0"], measure_every=16)
    model.learn(64, callback=callback)
    model.save(tmp_path / "model")
    with pytest.raises(RuntimeError, match="Missing key"):
        DQN.load(tmp_path / "model")
    again = small(DQN)
    restructure(learners_of(again)["q"], callback.learners["q"].changes)
    again.set_parameters(tmp_path / "model")
    observation = np.ones(4, np.float32)
    q_values = [each.q_net(torch.as_tensor(observation)[None]) for each in (model, again)]
    assert torch.equal(*q_values)
    assert all(map(torch.equal, tensors(model.get_parameters()), tensors(again.get_parameters())))
    again.learn(64)
    with pytest.raises(ValueError, match="already has plasticity injection"):
        again.learn(64, callback=SuppleCallback())


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (PPO, {"hooks": ["fire@when:srank>3"], "measure_every": 0}, "never fires: .* measure_every is 0"),
        (SAC, {"hooks": ["critc/fire@0.5"]}, "unknown learner 'critc': did you mean 'critic'"),
        (SAC, {"hooks": ["injection@0.5"]}, "no part to duplicate"),
        (TD3, {"hooks": ["fire(contract=as_released)@0.5"]}, "no released code applies fire here"),
    ],
)
def test_hooks_that_cannot_work_are_refused_before_the_first_step(kind: Any, settings: dict, message: str) -> None:
    model = small(kind)
    with pytest.raises(ValueError, match=message) as refusal:
        model.learn(64, callback=SuppleCallback(**settings))
    assert "\n" not in str(refusal.value)
    assert model.num_timesteps == 0


def test_hooks_that_count_updates_are_refused() -> None:
    with pytest.raises(ValueError, match="fire@updates:9: steps of Stable-Baselines3 are environment steps"):
        SuppleCallback(["fire@updates:9"])


def test_hooks_are_a_list_in_which_each_is_given_once() -> None:
    with pytest.raises(ValueError, match="is given twice"):
        SuppleCallback(["fire@0.5", "snp@0.5", "fire@.5"])
    with pytest.raises(ValueError, match=r"hooks=\['fire@0.5'\]"):
        SuppleCallback("fire@0.5")


def test_stable_baselines3_is_needed_by_the_callback_alone() -> None:
    code = """
import sys
import supple.agents
assert "stable_baselines3" not in sys.modules
sys.modules["stable_baselines3"] = None
import supple.agents.sb3
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert last == "ImportError: SuppleCallback needs Stable-Baselines3: pip install 'supple[sb3]'"


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
    callback.load_state_dict(callback.state_dict())
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
    assert sorted(text.split()[0] for text in texts(told)) == ["fire@0.25", "fire@8"]
    assert [(step, hook) for step, hook, _ in events] == [(96, "snp@0.75")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state, model: state.update(seen=32), "is of step 32, but learning begins at step 64"),
        (lambda state, model: state.update(learners={}), "another algorithm: 'policy'"),
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


FAST = [*((a, "CnnPolicy") for a in ALGORITHMS), ("PPO", "MultiInputPolicy"), ("DQN", "MlpPolicy")]  # all: tests/stress


@pytest.mark.parametrize(("algorithm", "policy"), FAST)
def test_a_measured_run_is_bit_for_bit_the_run_without_the_callback(
    algorithm: str, policy: str, tmp_path: Path
) -> None:
    require_unharmed(algorithm, policy, tmp_path)


def test_a_diagnosis_of_the_default_policy_for_images_leaves_it_as_it_was() -> None:
    model = require_undisturbed("PPO", "CnnPolicy")
    weight = model.policy.features_extractor.cnn[0].weight
    start = weight.detach().clone()
    model.learn(16)
    assert not torch.equal(weight, start)  # its optimizer still knows it
