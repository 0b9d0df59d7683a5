"""Random hooks, and edited configs and comparison files, never give a traceback.

A few examples of each, always the same, so that the suite stays short; SUPPLE_FUZZ=5000 draws so many of each, new
ones each time. Numbers stay small: whether what they ask for fits the machine is another question.
"""

import json
import os
import runpy
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supple.interventions import interventions
from supple.scripts.cli.console import run
from supple.scripts.main import dispatch

pytestmark = pytest.mark.slow

Here = Callable[[], AbstractContextManager[None]]
ARMS = ["--arm", "none", "--arm", "snp", "--jobs", "1"]
EXAMPLES = int(os.environ.get("SUPPLE_FUZZ", "0"))
SMALL = runpy.run_path(str(Path(__file__).parents[2] / "tests" / "stress" / "small_runs.py"))

texts = st.text(max_size=6) | st.sampled_from(["", "0", "none", "fire@0.5", "../x", "\ud800", "²", "\0"])
scalars = st.none() | st.booleans() | st.integers(-2, 4) | st.floats(width=16) | texts
junk = st.recursive(scalars, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(texts, inside, max_size=3))
REPORT = st.sampled_from([False, False, False, True])  # which takes longer: figures are drawn


def few(examples: int) -> Callable[[Any], Any]:
    return settings(
        max_examples=EXAMPLES or examples,
        derandomize=not EXAMPLES,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


@st.composite
def edits(draw: st.DrawFn, value: Any) -> Any:
    """Draw a JSON value with a change somewhere in it."""
    if isinstance(value, (dict, list)) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(list(value) if isinstance(value, dict) else range(len(value))))
        changed = value.copy()
        if draw(st.integers(0, 5)):
            changed[key] = draw(edits(value[key]))
        else:
            del changed[key]
        return changed
    if isinstance(value, dict) and draw(st.booleans()):
        return {**value, draw(texts): draw(junk)}
    return draw(junk)


@st.composite
def hooks(draw: st.DrawFn) -> str:
    """Draw a hook by the grammar; most of them are wrong."""
    name = draw(st.sampled_from([*interventions.names(), "nope", ""]) | texts)
    words = st.sampled_from(["lam", "tau", "steps", "scope", "what", "strength"]) | texts
    values = scalars.map(str) | st.sampled_from(["[]", "head", "all", "1e999", "-0", "(", "conv"])
    given = ",".join(f"{word}={value}" for word, value in draw(st.lists(st.tuples(words, values), max_size=2)))
    when = st.sampled_from(
        ["", "@0.5", "@task", "@task:1", "@every:2", "@start", "@when:dormant_fraction>0.3", "@", "@-1"]
    )
    return draw(st.sampled_from(["", "model/", "x/"])) + name + (f"({given})" if given else "") + draw(when | texts)


def answer(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Run `supple`, which must succeed, or end with one line on stderr and exit status 1 or 2."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["supple", *words])
        with pytest.raises(SystemExit) as stop:
            run(dispatch)
    said = capsys.readouterr().err
    assert stop.value.code in (0, 1, 2), said
    assert not stop.value.code or said.count("\n") == 1, said


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, here: Here) -> Path:
    """Return a folder with a finished run of linear networks and a finished comparison."""
    folder = tmp_path_factory.mktemp("made")
    common = ["linear", "--tasks", "semantic,reversal", "--updates-per-task", "8", "--checkpoint-every", "4"]
    with here():
        dispatch(["train", *common, "--hook", "rebalance(lam=5)@task", "--out", str(folder / "run")])
        dispatch(["compare", *common, "--fork-at", "0.5", *ARMS, "--out", str(folder / "comparison")])
    return folder


def copy(made: Path, name: str, tmp_path: Path) -> Path:
    """Return a fresh copy of what was made."""
    shutil.rmtree(target := tmp_path / name, ignore_errors=True)
    return Path(shutil.copytree(made / name, target))


def rewrite(file: Path, data: st.DataObject) -> None:
    """Edit a file with a checksum, which is then wrong."""
    file.write_text(json.dumps(data.draw(edits(json.loads(file.read_text())))))


@few(15)
@given(text=hooks())
def test_no_text_of_a_hook_gives_a_traceback(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(out := tmp_path / "run", ignore_errors=True)
    run_of = ["train", "linear", "--tasks", "semantic,reversal", "--updates-per-task", "4"]
    answer([*run_of, f"--hook={text}", "--out", str(out)], capsys)


@few(20)
@given(data=st.data())
def test_no_config_gives_a_traceback(
    data: st.DataObject, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewrite((path := copy(made, "run", tmp_path)) / "config.json", data)
    answer(["report" if data.draw(REPORT) else "resume", str(path)], capsys)


@few(12)
@given(data=st.data())
def test_no_comparison_file_gives_a_traceback(
    data: st.DataObject, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], here: Here
) -> None:
    rewrite((path := copy(made, "comparison", tmp_path)) / "comparison.json", data)
    if data.draw(REPORT):
        answer(["report", str(path)], capsys)
    else:
        with here():
            answer(["resume", "--jobs", "1", str(path)], capsys)
