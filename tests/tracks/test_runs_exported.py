"""Exported runs of the tracks have the networks and the logs of their runs."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from supple.engine.loading import find_state, load_states
from supple.experiments import load
from supple.scripts.main import dispatch

pytestmark = pytest.mark.slow


def networks(path: Path) -> dict[str, torch.Tensor]:
    (_, work), *_ = load_states(path, dict([find_state(path)]), lambda line: None)
    return {
        f"{name}.{key}": value
        for name, learner in work.learners.items()
        for key, value in (*learner.module.state_dict().items(), *learner.initial.items())
    }


@pytest.mark.parametrize("kind", ["vision", "pretrain", "sft", "clip", "continual", "linear"])
def test_an_exported_run_is_read_as_the_run(
    kind: str, small: Callable[..., list[str]], tmp_path: Path, without_figures: None
) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    dispatch(small("train", kind, run))
    dispatch(["export", str(run), "--out", str(out)])
    own, of_run = networks(out), networks(run)
    assert own.keys() == of_run.keys()
    assert all(torch.equal(own[name], value) for name, value in of_run.items())
    assert load(out).metrics.equals(load(run).metrics)
    assert load(out).tasks.equals(load(run).tasks)
    for file in (run / "model").rglob("*.*"):
        assert (out / file.relative_to(run)).read_bytes() == file.read_bytes()
