"""The report of logs of other programs: its numbers beside scipy's, old tasks, and seeds that do not pair."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas
import pytest
import scipy.stats

from supple.reports import compose_logs, write
from supple.scripts import report

pytestmark = pytest.mark.slow


def test_monitors_of_two_algorithms_have_the_means_and_intervals_of_scipy(tmp_path: Path) -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.monitor import load_results

    returns: dict[str, list[pandas.DataFrame]] = {}
    for kind, seed in product((sb3.PPO, sb3.A2C), range(3)):
        folder = tmp_path / f"logs/{kind.__name__}/seed-{seed}"
        envs = make_vec_env("CartPole-v1", 2, seed=seed, monitor_dir=str(folder))
        kind("MlpPolicy", envs, n_steps=32, seed=seed, device="cpu").learn(256)
        envs.close()
        returns.setdefault(kind.__name__, []).append(load_results(str(folder)))
    report.main(["--logs", str(tmp_path / "logs"), "--out", str(tmp_path)])
    scores = json.loads((tmp_path / "report/scores.json").read_text())
    end = max(rows["l"].sum() for of_kind in returns.values() for rows in of_kind)
    final = {}
    for arm, of_kind in returns.items():
        found = scores["arms"][arm]["final"]
        final[arm] = [rows["r"][rows["l"].cumsum() > 0.85 * end].mean() for rows in of_kind]
        mean, error = np.mean(final[arm]), scipy.stats.sem(final[arm])
        np.testing.assert_allclose(found["per_seed"], final[arm])
        np.testing.assert_allclose(found["mean"], mean)
        np.testing.assert_allclose(found["interval"], scipy.stats.t.interval(0.95, 2, mean, error))
    difference = scores["differences"][0]
    assert (difference["arm"], difference["baseline"]) == ("PPO", "A2C")
    np.testing.assert_allclose(difference["p_t"], scipy.stats.ttest_rel(final["PPO"], final["A2C"]).pvalue)


def write_rows(file: Path, seeds: dict[str, list[int]]) -> Path:
    """Write two tasks, after the second of which the first is worth less, by 100 for `none` and 40 for `mine`."""
    rows = ["arm,seed,step,value,task"]
    for arm, of_arm in seeds.items():
        for seed in of_arm:
            value = 300 + seed
            rows += [f"{arm},{seed},{step},{value},first" for step in (50, 100)]
            rows += [f"{arm},{seed},{step},{value},second" for step in (150, 200)]
            rows += [f"{arm},{seed},200,{value - (100 if arm == 'none' else 40)},first"]
    file.write_text("\n".join(rows))
    return file


def test_old_tasks_are_reported_in_the_units_of_the_values(tmp_path: Path) -> None:
    content = compose_logs([write_rows(tmp_path / "rows.csv", {"none": [0, 1], "mine": [0, 1]})])
    old = content.scores["arms"]["none"]["old_tasks"]
    assert old["forgetting"]["mean"] == 100
    (table,) = (table for table in content.tables if table.title == "Old tasks")
    assert [row[table.header.index("forgetting")].mean for row in table.rows] == [100, 40]
    assert {plot.name for plot in write(content, tmp_path).plots} == {
        "measure_final_value", "curves", "old_tasks", "measure_mean_value",
    }  # fmt: skip
    page = (tmp_path / "report/index.html").read_text()
    assert "Colours end at 200 and 300" in page
    assert "supple resume" not in page
    assert "resets" not in page


def test_arms_without_common_seeds_are_not_tested_in_pairs_and_the_report_says_so(tmp_path: Path) -> None:
    content = compose_logs([write_rows(tmp_path / "rows.csv", {"none": [0, 1], "mine": [2, 3]})])
    assert content.scores["differences"] == []
    assert any("no seed in common" in note for note in content.notes)


def test_a_run_that_ends_before_the_last_window_has_no_final_value(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("arm,seed,step,value\n" + "".join(f"a,{s},{t},1\n" for s in (0, 1) for t in (50, 100 - 50 * s)))
    content = compose_logs([file])
    assert content.scores["arms"]["a"]["final"]["per_seed"] == [1, None]
    assert any("seed 1: unfinished" in note for note in content.notes)
