"""Exported agents act as those of their runs, to the bit, on this machine or from the hub."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from supple.agents.trained import Trained
from supple.engine.extension import extend
from supple.engine.loading import steps_of
from supple.engine.runs import open_run
from supple.engine.spec import read_spec, write_spec
from supple.experiments import load
from supple.registry.errors import RunError, UsageError
from supple.reports.export import export
from tests.agents.small import KINDS, train

pytestmark = pytest.mark.slow
OBSERVED = {"CartPole-v1": 4, "Pendulum-v1": 3}


def actions(path: str | Path, **which: Any) -> tuple[np.ndarray, list[float]]:
    """Return actions for some observations, and the returns of two episodes."""
    agent = Trained(path, warn=lambda line: None, **which)
    observations = np.random.default_rng(0).normal(size=(64, OBSERVED[agent.env])).astype(np.float32)
    return agent.predict(observations), agent.evaluate(episodes=2)


def assert_same(found: tuple[np.ndarray, list[float]], expected: tuple[np.ndarray, list[float]]) -> None:
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1] == expected[1]


@pytest.mark.parametrize("kind", KINDS)
def test_an_exported_agent_acts_as_its_run_and_cannot_be_trained_further(
    kind: str, tmp_path: Path, without_figures: None
) -> None:
    run, out, early = train(kind, tmp_path / "run", (3, 8)), tmp_path / "out", tmp_path / "early"
    export(run, out)
    export(run, early, first := min(steps_of(run)))
    for place, which in ((out, {"seed": 8}), (early, {"step": first})):
        assert_same(actions(place, **which), actions(run, **which))
    assert load(out).episodes.equals(load(run).episodes)
    assert load(early).episodes.equals(load(run).episodes.query(f"step <= {first}").reset_index(drop=True))
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    stored = next(out.rglob("state.json"))
    assert {file.name for file in stored.parent.iterdir()} == {"state.json", "state.safetensors"}
    assert b"/optimizer/" not in stored.read_bytes()
    open_run(out).train()
    assert {file: file.read_bytes() for file in before} == before
    with pytest.raises(UsageError, match="cannot be extended: it was exported"):
        extend(out, 999, print)


def test_an_agent_that_was_trained_on_a_gpu_acts_where_there_is_none(tmp_path: Path, without_figures: None) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    export(train("dqn", tmp_path / "run"), out := tmp_path / "out")
    expected, spec = actions(out), read_spec(out)
    on_gpu: dict[str, Any] = {"device": "cuda"}
    write_spec(out, replace(spec, settings=replace(spec.settings, **on_gpu)))
    assert_same(actions(out), expected)


def test_an_agent_on_the_hub_is_the_one_that_was_uploaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_figures: None
) -> None:
    hub = pytest.importorskip("huggingface_hub.constants", reason="an extra")
    run, copies = train("ppo", tmp_path / "run", cycles=1), tmp_path / "hub" / "models--jo--agent"
    export(run, copies / "snapshots" / ("a" * 40))
    (copies / "refs").mkdir()
    for name in ("main", "v1"):  # as the hub's client leaves them after a download
        (copies / "refs" / name).write_text("a" * 40)
    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", True)
    for name in ("hf:jo/agent", "hf:jo/agent@v1"):
        assert_same(actions(name), actions(run))
    assert load("hf:jo/agent").episodes.equals(load(run).episodes)
    read = pytest.importorskip("huggingface_hub").ModelCard.load(copies / "snapshots" / ("a" * 40) / "README.md").data
    assert (read.library_name, read.pipeline_tag) == ("supple", "reinforcement-learning")
    assert {(each.dataset_name, each.metric_name) for each in read.eval_results} >= {("CartPole-v1", "mean return")}
    with pytest.raises(RunError, match="hf:jo/other could not be loaded from the hub"):
        load("hf:jo/other")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # as if it were not installed
    with pytest.raises(RunError, match=r"hf:jo/agent needs huggingface_hub: .*supple\[hub\]"):
        load("hf:jo/agent")
