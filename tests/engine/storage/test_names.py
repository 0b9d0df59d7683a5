"""Names of folders: which ones users may give, and that no two runs share one."""

from pathlib import Path

import pytest

from supple.engine.storage.names import LONGEST, OWN, problem, require, require_apart, slug
from supple.experiments import Study, Sweep
from supple.experiments.comparisons.points import name_seeds
from supple.registry.errors import UsageError


@pytest.mark.parametrize(
    "name",
    [
        *OWN, "Report", "TUNING", "report.tmp.tmp", "sweep.json.tmp", "seed-0", "seeds-0-1", "con", "NUL.txt", "com¹",
        "x.", "..", "", "a/b", "a\tb", "x" * 256,
    ],
)  # fmt: skip
def test_a_name_that_supple_or_the_system_uses_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"^\[study\]: the folder "):
        require(name, "[study]")


@pytest.mark.parametrize("name", ["rates", "runs", "model", "reports", "seed", "con1", ".hidden", "é", "x" * 255])
def test_other_names_are_possible(name: str) -> None:
    assert problem(name) == ""


@pytest.mark.parametrize(
    ("folders", "words"),
    [
        (["fire", "fire"], "two runs would share the folder fire: a and b"),
        (["Fire", "fire"], "b: some systems do not tell its folder fire from Fire"),
        (["x=Relu/none", "x=relu/fire"], "b: some systems do not tell its folder x=relu from x=Relu"),
        (["x=1", "x=1/none"], "the folder of b would lie inside the one of a"),
        (["none", "trunk"], "b: its folder 'trunk' is the name of a folder"),
    ],
)
def test_runs_whose_folders_collide_are_refused(folders: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        require_apart(list(zip("ab", folders, strict=True)), folders)


def test_existing_runs_with_similar_names_continue() -> None:
    require_apart([("a", "Fire"), ("b", "fire"), ("c", "con")], [])


def test_a_text_whose_slug_is_empty_or_too_long_gets_a_unique_name() -> None:
    texts = ["火", "水", "x" * 300, "x" * 301]
    assert len({slug(text) for text in texts}) == 4
    assert all("~" in slug(text) and len(slug(text)) <= LONGEST for text in texts)
    assert len({name_seeds(tuple(range(n))) for n in (300, 301)}) == 2
    assert len(name_seeds(tuple(range(300)))) <= LONGEST


def test_a_sweep_refuses_the_name_of_a_study_before_anything_is_written(tmp_path: Path) -> None:
    for names in (["report.tmp"], ["tuning"], ["Rates", "rates"], ["../other"]):
        sweep = Sweep([Study(name, "linear", settings={"tasks": "semantic", "updates_per_task": 4}) for name in names])
        with pytest.raises(UsageError, match=rf"^\[{names[0].replace('.', '[.]')}\]: "):
            sweep.begin(tmp_path / "sweep")
        assert not (tmp_path / "sweep").exists()
