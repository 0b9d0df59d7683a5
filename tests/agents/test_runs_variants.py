"""Comparisons of agents in variants of their settings, each forked from a trunk of its own; and their seeds."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from supple.engine.spec import read_spec
from supple.reports import build_report, load, summary_table
from supple.scripts import compare, train
from supple.scripts.cli.options import parse_request
from tests.figures import empty_figures

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_figures")]

SETTINGS = shlex.split(
    "ppo --sequence inverted_pendulum,inverted_double_pendulum --steps-per-task 256 --num-envs 4 --rollout-steps 32 "
    "--minibatch-size 64 --epochs 2 --hidden 16 16 --adapter 16 --measure-every 128 --eval-episodes 0"
)
RATES = {"1e-4": "0.0001", "1e-3": "0.001"}  # as typed, and as folders and arms are named


@pytest.fixture(scope="module")
def varied(here: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("varied") / "rates"
    vary = ["--vary", f"learning_rate={','.join(RATES)}", "--fork-at-task", "1", "--arm", "none", "--arm", "fire"]
    with here(), empty_figures():
        compare.main([*SETTINGS, *vary, "--out", str(out)])
    return out


def test_each_variant_has_a_trunk_and_is_what_a_run_with_its_settings_is(
    varied: Path, same: Any, tmp_path: Path
) -> None:
    assert {path.name for path in (varied / "seed-0").iterdir()} == {f"learning_rate={rate}" for rate in RATES.values()}
    ends = []
    for typed, rate in RATES.items():
        folder = varied / f"seed-0/learning_rate={rate}"
        assert {path.name for path in folder.iterdir()} == {"trunk", "none", "fire"}
        train.main([*SETTINGS, "--learning-rate", typed, "--out", str(tmp_path / rate)])
        assert same.last_state(folder / "none") == same.last_state(tmp_path / rate)
        for log in ("episodes", "metrics", "events"):
            assert same.log(folder / "trunk", log) + same.log(folder / "none", log) == same.log(tmp_path / rate, log)
        specs = {name: read_spec(folder / name) for name in ("trunk", "none", "fire")}
        assert [spec.settings.learning_rate for spec in specs.values()] == [float(typed)] * 3
        assert [spec.labels.variant for spec in specs.values()] == [{"learning_rate": float(typed)}] * 3
        assert (specs["trunk"].stop, specs["fire"].start.step, specs["fire"].labels.arm) == (256, 256, "fire")
        ends += [same.last_state(folder / name) for name in ("none", "fire")]
    assert all(a != b for i, a in enumerate(ends) for b in ends[:i])


def test_its_report_names_every_arm_after_its_variant(varied: Path, tmp_path: Path) -> None:
    names = [f"learning_rate={rate} · {arm}" for rate in RATES.values() for arm in ("none", "fire")]
    data = load(varied)
    assert list(data.arms) == names
    assert data.notes == []
    for name, [run] in data.arms.items():
        assert run.settings.learning_rate == float(name.split("=")[1].split(" ")[0])
        assert {row["step"] for row in run.metrics} == {128, 256, 384, 512}  # of its trunk, and its own
    paths = build_report(varied, out=tmp_path)
    page, scores = paths.html.read_text(), json.loads(paths.scores.read_text())
    assert list(scores["arms"]) == names
    assert all(name in page for name in names)
    assert "0.0001; 0.001" in page  # the settings say what varies
    assert len(paths.figures) >= 3
    assert summary_table(varied)


@pytest.mark.parametrize(("seeds", "read"), [(["3"], (3,)), (["0-2"], (0, 1, 2)), (["3", "5"], (3, 5))])
def test_one_number_is_one_seed(seeds: list[str], read: tuple[int, ...]) -> None:
    options = compare.parse_options(parse_request("compare", [*SETTINGS, "--seeds", *seeds, "--out", "x"]))
    assert options.settings.seeds == read
