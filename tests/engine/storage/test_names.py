"""Names of folders: no two runs share one, whatever the arms are called."""

from pathlib import Path

import pytest

from supple.engine.storage.names import LONGEST, OWN, plain, slug
from supple.experiments import Study, Sweep
from supple.experiments.comparisons.grid import name_seeds
from supple.registry.errors import UsageError


def test_a_text_that_can_be_a_name_is_one_and_another_gets_a_short_checksum() -> None:
    for text in ("none", "learning_rate=0.001", "x.y-z"):
        assert slug(text) == plain(text) == text
    assert plain("fire@task + snp(lam=0.5)") == "fire_task_snp_lam=0.5"
    assert slug("fire@task + snp(lam=0.5)") == "fire_task_snp_lam=0.5-55011d"


def test_no_two_texts_share_a_folder_on_any_system() -> None:
    texts = ["Fire", "fire", "FIRE", "fire@task", "fire(task)", "火", "水", "..", "", "x" * 300, "x" * 301, "a/b", *OWN]
    names = [slug(text) for text in texts]
    assert len({name.lower() for name in names}) == len(names)
    assert not set(names) & {*OWN, "", ".", ".."}
    assert all(len(name) <= LONGEST + 10 and "/" not in name for name in names)
    assert len({name_seeds(tuple(range(n))) for n in (300, 301)}) == 2


def test_a_sweep_refuses_the_name_of_a_study_before_anything_is_written(tmp_path: Path) -> None:
    for name in ("report.tmp", "tuning", "Rates", "../other"):
        sweep = Sweep([Study(name, "linear", settings={"tasks": "semantic", "updates_per_task": 4})])
        with pytest.raises(UsageError, match=rf"^\[{name.replace('.', '[.]')}\]: the name of a study"):
            sweep.begin(tmp_path / "sweep")
        assert not (tmp_path / "sweep").exists()
