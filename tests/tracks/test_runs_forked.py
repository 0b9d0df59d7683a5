"""Forks of the kinds that are not stacked: each arm equals a run of its own with the same hooks."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supple.engine.spec import read_spec
from supple.engine.storage.names import slug
from supple.scripts.main import dispatch
from tests.processes import die_when, ended
from tests.tracks.logs import read_log, require_same

pytestmark = pytest.mark.slow

Words = Callable[..., list[str]]
LOGS = ("metrics", "tasks", "events")
MORE = {"pretrain": ("--dropout", "0.1"), "one phase": ("--dropout", "0.1"), "continual": ("--method", "full")}
TASK_ENDS = {"pretrain": 12, "continual": 8, "linear": 60}
WITHIN = {
    "one phase": ("0.5", 6),
    "continual": ("0.25", 4),
    "sft": ("0.5", 8),
    "clip": ("0.25", 4),
    "linear": ("0.25", 30),
}


def last_state(run: Path) -> tuple[str, bytes]:
    folder = max((run / "checkpoints").iterdir())
    return folder.name, (folder / "state.safetensors").read_bytes()


@pytest.mark.parametrize("kind", TASK_ENDS)
def test_a_fork_at_a_task_end_with_ewc_equals_the_uninterrupted_run(
    small: Words, tmp_path: Path, here: Any, kind: str
) -> None:
    """It saw the first task end, and its penalty draws back to it throughout the second."""
    hook = "ewc(strength=10,samples=6)"
    fork = () if kind == "pretrain" else ("--fork-at-task", "1")
    more = MORE.get(kind, ())
    with here():
        dispatch(small("compare", kind, tmp_path / "forked", *more, *fork, "--arm", "none", "--arm", hook))
    folder, whole = tmp_path / "forked/seed-0", {"none": tmp_path / "none", hook: tmp_path / "whole"}
    dispatch(small("train", kind, whole["none"], *more))
    dispatch(small("train", kind, whole[hook], *more, "--hook", hook))
    for arm, run in whole.items():
        assert last_state(folder / slug(arm)) == last_state(run)
        for name in LOGS:
            assert read_log(folder / "trunk", name) + read_log(folder / slug(arm), name) == read_log(run, name), name
    spec = read_spec(folder / slug(hook))
    assert (spec.start.step, spec.resolved.hooks) == (TASK_ENDS[kind], (hook,))


def test_a_hook_of_the_method_is_called_once_at_each_task_end(small: Words, tmp_path: Path, here: Any) -> None:
    """Elastic weight consolidation as a method is in the trunk already."""
    method = ("--method", "ewc", "--ewc-strength", "10")
    with here():
        dispatch(small("compare", "continual", tmp_path / "forked", *method, "--fork-at-task", "1", "--arm", "none"))
    dispatch(small("train", "continual", tmp_path / "whole", *method))
    assert last_state(tmp_path / "forked/seed-0/none") == last_state(tmp_path / "whole")


@pytest.mark.parametrize("kind", WITHIN)
def test_a_fork_within_a_task_equals_the_uninterrupted_run(small: Words, tmp_path: Path, here: Any, kind: str) -> None:
    """But for the measurement with which a trunk ends."""
    fork, step = WITHIN[kind]
    more = MORE.get(kind, ())
    with here():
        dispatch(small("compare", kind, tmp_path / "forked", *more, "--fork-at", fork, "--arm", "none"))
    dispatch(small("train", kind, tmp_path / "whole", *more))
    folder, whole = tmp_path / "forked/seed-0", tmp_path / "whole"
    assert last_state(folder / "none") == last_state(whole)
    for name in LOGS:
        lines = read_log(folder / "trunk", name)
        if name == "metrics":
            (measured,) = [line for line in lines if line["step"] == step and "model/srank" in line]
            lines.remove(measured)
        assert lines + read_log(folder / "none", name) == read_log(whole, name), name


@pytest.mark.parametrize("kind", ["pretrain", "continual"])
def test_a_killed_comparison_resumes_to_the_same_result(small: Words, tmp_path: Path, here: Any, kind: str) -> None:
    more = ("--fork-at-task", "1") if kind == "continual" else ()
    arms = ("--arm", "none", "--arm", "l2_init(strength=1e-2)")
    whole, broken = (small("compare", kind, tmp_path / name, *more, *arms) for name in ("whole", "broken"))
    with here():
        dispatch(whole)
    if not (child := os.fork()):
        try:
            die_when(lambda: list(tmp_path.glob("broken/seed-0/none/checkpoints/*")))
            with here():
                dispatch(broken)
        finally:
            os._exit(0)
    assert ended(child) == -signal.SIGKILL
    second = slug("l2_init(strength=1e-2)")
    assert not (tmp_path / f"broken/seed-0/{second}/metrics.jsonl").exists(), "killed too late to prove anything"
    with here():
        dispatch(["resume", str(tmp_path / "broken")])
    for run in ("trunk", "none", second):
        require_same(tmp_path / "broken/seed-0" / run, tmp_path / "whole/seed-0" / run)
