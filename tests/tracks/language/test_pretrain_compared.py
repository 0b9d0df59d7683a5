"""`supple compare pretrain`: starts and other variants of the settings, each with every arm."""

from pathlib import Path
from typing import Any

import pytest

from supple.engine.spec import read_spec
from supple.experiments.comparisons.grid import Point
from supple.registry.errors import UsageError
from supple.scripts.main import dispatch
from supple.tracks.language.pretrain.settings import PretrainSettings
from tests.tracks.logs import state

pytestmark = pytest.mark.slow

ARMS = ("none", "fire(steps=5)", "snp(lam=0.5)", "reset")
STARTS = ("best", "6", "12")


@pytest.fixture(scope="module")
def warm(bench: Any, tmp_path_factory: pytest.TempPathFactory, here: Any) -> Path:
    """Four arms from three states of the first phase."""
    out = tmp_path_factory.mktemp("compare") / "warm"
    arms = [word for arm in ARMS for word in ("--arm", arm)]
    with here():
        dispatch(bench.command(out, *arms, "--vary", f"start={','.join(STARTS)}", command="compare"))
    return out / "seed-0"


def test_all_arms_of_all_starts_begin_from_states_of_one_trunk(bench: Any, warm: Path) -> None:
    assert sorted(path.name for path in warm.iterdir()) == ["start=12", "start=6", "start=best", "trunk"]
    best = min((line["val_loss"], line["step"]) for line in bench.log(warm / "trunk", "metrics") if "val_loss" in line)
    steps = {"best": best[1], "6": 6, "12": 12}
    for start in STARTS:
        for arm in ARMS:
            folder = warm / Point(arm, {"start": start}).folder
            spec = read_spec(folder)
            assert (spec.start.step, spec.total_steps) == (steps[start], steps[start] + 8)
            assert spec.labels.variant == {"start": start}
            assert spec.resolved.tasks[1]["start"] == steps[start]
            assert [task["task"] for task in bench.log(folder, "tasks")] == [1]


def test_an_arm_equals_a_single_run_that_starts_at_the_same_update(bench: Any, warm: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    dispatch(bench.command(alone, "--start", "6", "--hook", "fire(steps=5)@task"))
    arm = warm / Point("fire(steps=5)", {"start": "6"}).folder
    assert state(arm, 14) == state(alone, 14)
    ours, theirs = (
        [line for line in bench.log(run, "metrics") if line["step"] > 6 and "val_loss" in line] for run in (arm, alone)
    )
    assert ours == theirs


WRONG = {
    "--vary start=best,13": "a second phase can start at update 1 to 12 of the first, not 13",
    "--vary start=soon": "--start must be an update of the first phase or best, got 'soon'",
    "--vary strt=best": "no setting 'strt': did you mean 'start'?",
    "--vary width=": "as NAME=VALUE,VALUE",
    "--vary batch_size=2,2": "a value is given twice",
    "--vary batch_size=wide": 'batch_size should be an integer, but is "wide"',
    "--vary start=best,6 --arm fire@5": "--arm",
}


@pytest.mark.parametrize("words", WRONG)
def test_impossible_comparisons_are_refused_before_any_file_is_written(bench: Any, tmp_path: Path, words: str) -> None:
    out = tmp_path / "out"
    with pytest.raises(UsageError, match=WRONG[words].replace("?", r"\?").replace("(", r"\(")):
        dispatch(bench.command(out, *words.split(), command="compare"))
    assert not out.exists()


def test_the_preset_has_the_settings_of_the_paper() -> None:
    s = PretrainSettings(first=("wikitext.txt",))
    assert (s.layers, s.width, s.heads, s.block_size, s.batch_size) == (12, 768, 12, 1024, 480)
    assert (s.learning_rate, s.min_rate * s.learning_rate, s.weight_decay) == (6e-4, pytest.approx(6e-5), 0.1)
    assert (s.warmup, s.second_warmup, s.max_grad_norm, s.dropout) == (2_000, 0.1, 1.0, 0.0)
