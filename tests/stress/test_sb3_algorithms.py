"""Six algorithms of SB3, each with three policies: measured, intervened in, saved, continued and diagnosed.

Not part of `make test`: `pytest tests/stress/test_sb3_algorithms.py`.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import pytest
import torch

pytest.importorskip("stable_baselines3")

from supple.agents.sb3 import SuppleCallback
from supple.scripts.main import dispatch
from tests.integrations.sb3.twins import (
    ALGORITHMS,
    POLICIES,
    assert_same,
    env_for,
    loaded,
    model_of,
    require_undisturbed,
    require_unharmed,
    result,
)

CASES = [(algorithm, policy) for algorithm in ALGORITHMS for policy in POLICIES]
HOOKS = ["fire(method=polar)@0.25", "snp(noise=0.1)@every:16", "l2_init(strength=1e-2)", "snp@when:weight_norm>0"]


@pytest.fixture(autouse=True)
def quiet_on_one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(("algorithm", "policy"), CASES)
def test_measuring_does_not_change_a_run_nor_its_continuation(algorithm: str, policy: str, tmp_path: Path) -> None:
    require_unharmed(algorithm, policy, tmp_path)


@pytest.mark.parametrize(("algorithm", "policy"), CASES)
def test_hooks_continue_from_a_saved_state(algorithm: str, policy: str, tmp_path: Path) -> None:
    callback = SuppleCallback(HOOKS, measure_every=8)
    model_of(algorithm, policy).learn(32, callback=callback).save(tmp_path / "model")
    torch.save(callback.state_dict(), tmp_path / "callback.pt")
    new, ends, events = SuppleCallback(HOOKS, measure_every=8), [], []
    new.load_state_dict(torch.load(tmp_path / "callback.pt", weights_only=True))
    for each in (callback, new):
        first = len(each.events)
        model = loaded(algorithm, policy, tmp_path / "model")
        ends.append(result(model.learn(32, callback=each, reset_num_timesteps=False)))
        events.append([(event["step"], event["hook"]) for event in each.events[first:]])
    assert_same(*ends)
    assert events[0] == events[1]
    assert {hook for _, hook in events[0]} == {"snp(noise=0.1)@every:16"}


@pytest.mark.parametrize(("algorithm", "policy"), CASES)
def test_a_diagnosis_does_not_change_the_model(algorithm: str, policy: str) -> None:
    require_undisturbed(algorithm, policy)


@pytest.mark.parametrize(("algorithm", "policy"), CASES)
def test_doctor_reads_the_saved_model(
    algorithm: str, policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"Supple{algorithm}{policy}-v0"
    gym.register(name, lambda: env_for(algorithm, policy))
    model_of(algorithm, policy).learn(32).save(tmp_path / "model.zip")
    options = f"--sb3 {algorithm} --policy {policy} --env {name} --steps 16 --updates 2"
    dispatch(["doctor", str(tmp_path / "model.zip"), *options.split()])
    assert "error on random targets" in capsys.readouterr().out
