"""The specification of a run in its folder: created completely or not at all, read back, or refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supple.agents.ppo.settings import PPOSettings
from supple.engine.forks import FRESH
from supple.engine.runs import build, resolved
from supple.engine.spec import FILE, Labels, RunSpec, Start, read_spec, start_run, to_json
from supple.engine.storage.signed_json import write_json
from supple.registry.errors import RunError, UsageError
from supple.tracks.linear.settings import LinearSettings

SPEC = RunSpec(
    "ppo", PPOSettings(hidden=(8, 8), hook=("fire@0.5",)), Labels(arm=FRESH, variant={"gamma": 0.9}), Start(8)
)


def test_a_folder_that_holds_anything_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(UsageError, match="already holds another run or other files"):
            start_run(path, SPEC)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_an_empty_folder_and_the_leftovers_of_a_killed_start_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "config.json.tmp").write_text('{"kin')
    start_run(tmp_path, SPEC)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert read_spec(tmp_path) == SPEC


@pytest.mark.parametrize(
    ("entry", "value", "words"),
    [
        ("settings", {"seed": "1"}, r"Expected `int`, got `str` - at `\$\.seed`"),
        ("kind", "ppa", "unknown kind of run 'ppa'"),
        ("start", {"step": "no"}, r"\$\.start\.step"),
    ],
)
def test_an_entry_that_does_not_fit_is_named_in_one_line(tmp_path: Path, entry: str, value: Any, words: str) -> None:
    write_json(tmp_path / FILE, to_json(SPEC) | {entry: value})
    with pytest.raises(RunError, match=rf"config\.json was edited or was written by another version.*{words}"):
        read_spec(tmp_path)


def test_a_setting_that_came_after_the_run_was_begun_has_its_default(tmp_path: Path) -> None:
    settings = {name: value for name, value in to_json(SPEC)["settings"].items() if name != "gamma"}
    write_json(tmp_path / FILE, to_json(SPEC) | {"settings": settings})
    assert to_json(read_spec(tmp_path)) == to_json(SPEC)


@pytest.mark.slow
def test_the_identity_of_a_run_depends_on_what_training_depends_on(tmp_path: Path) -> None:
    spec = RunSpec("linear", LinearSettings(updates_per_task=10))
    work = build(spec.kind_row, spec.settings)
    found = resolved(spec, work)
    start_run(tmp_path, found)
    assert read_spec(tmp_path) == found
    assert {"python", "torch", "numpy", "supple"} <= found.resolved.begun.keys()
    assert resolved(replace(spec, command="other words"), work).resolved.identity == found.resolved.identity
    others = [replace(spec, stop=8), replace(spec, start=Start(8)), replace(spec, kind="ppo")]
    work.settings = replace(work.settings, seed=1)
    assert found.resolved.identity not in {resolved(other, work).resolved.identity for other in (spec, *others)}
    work.close()
