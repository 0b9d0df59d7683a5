"""The opening of a report: its sentences claim what the tests allow, and nothing else."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.reports import load
from supple.reports.pages.opening import conclude, count_text, make_opening
from supple.reports.tables.differences import Measure, differences, pairwise_differences
from supple.reports.tables.table import join_words
from tests import records

few = settings(max_examples=40)
ARMS = ("none", "fire", "reset", "fresh")
scores = st.dictionaries(
    st.sampled_from(ARMS),
    st.dictionaries(st.integers(0, 4), st.integers(-9, 9).map(float) | st.just(float("nan")), min_size=1),
    min_size=1,
)
CLAIM = re.compile(r"^(.+?) (?:has|have) a (higher|lower) return than ([\w ]+?)(, in (?:both|all \d+) seeds)?\.$")


def measure(name="return", variant="", **arms):
    return Measure(name, {arm: dict(enumerate(values)) for arm, values in arms.items()}, False, variant)


@pytest.mark.slow
@few
@given(scores)
def test_what_is_concluded_has_intervals_that_exclude_0(arms) -> None:
    one = Measure("return", arms)
    found = {(each.arm, each.baseline): each for each in [*differences([one]), *pairwise_differences(one)]}
    can, cannot = conclude([one])
    claimed = set()
    if not any(each.significant for each in found.values()):
        assert can == ["Nothing about return: no difference is significant."]
        can = []
    for sentence in can:
        words, direction, baseline, everywhere = CLAIM.match(sentence).groups()
        baseline = baseline.removeprefix("the ").removesuffix(" agent")
        for arm in re.findall("none|fire|reset", words):
            each, sign = found[arm, baseline], 1 if direction == "higher" else -1
            claimed.add((arm, baseline))
            assert each.p_holm < 0.05
            assert sign * (each.paired.low if sign > 0 else each.paired.high) > 0
            if everywhere:
                assert all(sign * value > 0 for value in each.by_seed.values())
    assert claimed == {pair for pair, each in found.items() if each.significant}
    for (arm, baseline), each in found.items():
        if not each.significant:
            assert any(arm in line and baseline in line for line in cannot)


CLEAR = {"none": [1.0, 2, 3, 4, 5], "fire": [101.0, 111, 105, 107, 100], "reset": [100.0, 111, 106, 106, 101]}


def test_arms_with_the_same_conclusion_share_a_sentence() -> None:
    can, cannot = conclude([measure(**CLEAR)])
    assert can == ["fire and reset have a higher return than none, in all 5 seeds."]
    assert cannot == ["reset does not differ significantly from fire in return (seeds needed: > 100)."]


def test_seeds_with_a_difference_of_the_same_sign_are_counted() -> None:
    can, _ = conclude([measure(none=[0.0] * 8, fire=[5.0, 6, 5, 6, 5, 6, 5, -0.1])])
    assert can == ["fire (in 7 of 8 seeds) has a higher return than none."]


def test_two_seeds_are_called_both_seeds() -> None:
    can, _ = conclude([measure(none=[0.0, 0], fire=[-5.0, -5.1])])
    assert can == ["fire has a lower return than none, in both seeds."]


def test_differences_that_are_the_same_in_every_seed_conclude_nothing() -> None:
    can, cannot = conclude([measure(none=[1.0, 2], fire=[2.0, 3], reset=[1.0, 2])])
    assert can == ["Nothing about return: no difference is significant."]
    assert cannot[0].startswith("fire differs from none in return by 1 in every seed: too few seeds")
    assert cannot[1] == "reset differs from none in return by 0 in every seed."


def test_one_seed_concludes_nothing() -> None:
    can, cannot = conclude([measure(none=[1.0], fire=[9.0], reset=[3.0])])
    assert can == ["Nothing about return: no difference is significant."]
    assert cannot[0] == "fire and reset have 1 seed in common with none: any difference in return may be due to chance."


def test_arms_without_a_common_seed_are_not_compared() -> None:
    _, cannot = conclude([Measure("return", {"none": {0: 1.0}, "fire": {1: 1.0}})])
    assert cannot == ["No two arms have a value of return for the same seed, so they are not compared."]


def test_other_measures_are_mentioned_if_they_differ() -> None:
    same = measure(none=[1.0, 2, 3], fire=[1.0, 3, 2], fresh=[2.0, 2, 2])
    can, cannot = conclude([same, measure("accuracy", none=[1.0, 2, 3], fire=[11.0, 12, 13.1])])
    assert can == [
        "Nothing about return: no difference is significant.",
        "fire has a higher accuracy than none, in all 3 seeds.",
    ]
    assert not [line for line in cannot if "accuracy" in line]
    assert any("from the fresh agent in return" in line for line in cannot)


def test_each_variant_has_its_own_sentence_and_long_lists_are_cut() -> None:
    can, _ = conclude([measure(variant=f"lr {i}", **CLEAR) for i in range(9)])
    assert can[0].startswith("lr 0: fire and reset have")
    assert can[6:] == ["3 more sentences: see the tables below."]


@pytest.mark.parametrize(("words", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), ("abc", "a, b and c")])
def test_a_list_in_words(words, text) -> None:
    assert join_words(words) == text


def test_a_count_in_words() -> None:
    assert [count_text(1, "seed"), count_text(2_000, "seed")] == ["1 seed", "2,000 seeds"]


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
    said = make_opening(data, "PPO on E-v0, twice", [measure(**CLEAR)], "Return: that at the end.")
    assert " ".join(said.compared) == (
        "2 arms of PPO on E-v0, twice were compared: none (no intervention) and tuned (with fire@task), beside fresh "
        "(a new agent for each task). Each run has 1,000 environment steps, in 2 tasks. Each arm was trained with 3 "
        "seeds (0, 1 and 4), and the arms of a seed continue from one trunk of 500 steps. Arms are compared by return. "
        "Return: that at the end."
    )
    assert "Holm" in said.test


def test_measures_without_a_number_are_not_named(tmp_path) -> None:
    nothing = measure("ACC", none=[float("nan")], tuned=[float("nan")])
    data = write_runs(tmp_path / "two", {"none": [], "tuned": []}, (0,))
    said = make_opening(data, "PPO", [measure(**CLEAR), measure("gap", **CLEAR), nothing])
    assert said.compared[-1] == "Arms are compared by return and also by gap."


def test_one_run_is_compared_with_nothing(tmp_path) -> None:
    said = make_opening(write_runs(tmp_path / "one", {"none": []}, (3,)), "PPO on E-v0", [measure(none=[1.0])])
    assert " ".join(said.compared).startswith("1 arm of PPO on E-v0 was trained: none (no intervention). Each run has")
    assert said.compared[-1] == "It was trained with 1 seed (3)."
    assert (said.can, said.cannot, said.test) == ([], [], "")
