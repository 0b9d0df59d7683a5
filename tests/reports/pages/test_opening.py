"""The opening of a report: its sentences claim what the tests allow, and nothing else."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.reports import load
from supple.reports.pages.opening import conclude, make_opening
from supple.reports.tables.differences import Measure, baseline_name, differences, pairwise_differences
from supple.reports.tables.table import join_words
from tests import records

few = settings(max_examples=40)
ARMS = ("none", "fire", "reset", "fresh")
scores = st.dictionaries(
    st.sampled_from(ARMS),
    st.dictionaries(st.integers(0, 4), st.integers(-9, 9).map(float) | st.just(float("nan")), min_size=1),
    min_size=1,
)


def measure(name="return", variant="", **arms):
    return Measure(name, {arm: dict(enumerate(values)) for arm, values in arms.items()}, False, variant)


@pytest.mark.slow
@few
@given(scores)
def test_what_is_concluded_are_the_significant_differences_to_baselines_and_between_others(arms) -> None:
    one = Measure("return", arms)
    can, cannot = conclude([one])
    found = [*differences([one]), *pairwise_differences(one)]
    starts = [f"{each.arm} against {baseline_name(each.baseline)}, " for each in found if each.significant]
    assert [line[: len(start)] for line, start in zip(can, starts, strict=True)] == starts
    assert len(can) + len(cannot) == len(found)


CLEAR = {"none": [1.0, 2, 3, 4, 5], "fire": [101.0, 111, 105, 107, 100], "reset": [100.0, 111, 106, 106, 101]}


def test_long_lists_are_cut(tmp_path) -> None:
    data = write_runs(tmp_path / "two", {"none": [], "tuned": []}, (0,))
    said = make_opening([data], "PPO", [measure(variant=f"lr {i}", **CLEAR) for i in range(5)])
    assert said.can[0].startswith("lr 0: fire against none, 5 seeds: return is higher: ")
    assert said.can[8:] == ["2 more"]


@pytest.mark.parametrize(("words", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), ("abc", "a, b and c")])
def test_a_list_in_words(words, text) -> None:
    assert join_words(words) == text


def write_runs(folder, arms, seeds, fork=0):
    records.write_plan(folder, "ppo", arms, seeds, fork)
    for seed in seeds:
        for i, (arm, hooks) in enumerate(arms.items()):
            run = folder / f"seed-{seed}" / f"arm-{i}"
            tasks = [
                {"index": j, "start": 500 * j, "end": 500 * (j + 1), "env": "E-v0", "name": "E-v0", "cycle": j}
                for j in range(2)
            ]
            records.write_run(run, "ppo", tasks, {"seed": seed}, labels={"arm": arm}, hooks=tuple(hooks))
            for name in ("episodes", "metrics", "events"):
                (run / f"{name}.jsonl").write_text("")
    return load(folder)


def test_the_opening_says_what_was_compared(tmp_path) -> None:
    data = write_runs(tmp_path / "all", {"none": [], "tuned": ["fire@task"], "fresh": []}, (0, 1, 4), fork=500)
    said = make_opening([data], "PPO on E-v0, twice", [replace(measure(**CLEAR), meaning="Return: that at the end.")])
    assert " ".join(said.compared) == (
        "3 arms of PPO on E-v0, twice: none (no intervention), tuned (fire@task) and fresh (a new agent for each task)."
        " Each run has 1,000 environment steps; tasks: 2. Seeds: 0, 1 and 4 (3 for each arm). "
        "The arms of a seed continue from one trunk of 500 steps. Arms are compared by return. Return: that at the end."
    )


def test_measures_without_a_number_are_not_named(tmp_path) -> None:
    nothing = measure("ACC", none=[float("nan")], tuned=[float("nan")])
    data = write_runs(tmp_path / "two", {"none": [], "tuned": []}, (0,))
    said = make_opening([data], "PPO", [measure(**CLEAR), measure("gap", **CLEAR), nothing])
    assert "Arms are compared by return and gap." in said.compared


def test_one_run_is_compared_with_nothing(tmp_path) -> None:
    said = make_opening([write_runs(tmp_path / "one", {"none": []}, (3,))], "PPO on E-v0", [measure(none=[1.0])])
    assert said.compared == [
        "PPO on E-v0: none (no intervention).", "Each run has 1,000 environment steps; tasks: 2.",
        "Seeds: 3 (1 for each arm).",
    ]  # fmt: skip
    assert (said.can, said.cannot) == ([], [])
