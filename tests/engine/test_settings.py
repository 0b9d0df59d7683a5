"""Settings that cannot work are refused in one line that names the option."""

import math

import pytest

from supple.engine.settings import RunSettings, positive, seeds_of
from supple.registry.errors import UsageError


@pytest.mark.parametrize("name", ["threads", "checkpoint_every", "keep_checkpoints", "measure_every"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_what_counts_must_be_positive(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} must be"):
        RunSettings(**{name: value}).check()


def test_seed_and_periods_of_evaluation_may_be_0_but_not_less() -> None:
    RunSettings(seed=0, eval_every=0).check()
    for name in ("seed", "eval_every"):
        with pytest.raises(UsageError, match="must be 0 or more, got -1"):
            RunSettings(**{name: -1}).check()


def test_states_are_kept_after_steps_above_0() -> None:
    with pytest.raises(UsageError, match="--keep-at must be a positive number, got 0"):
        RunSettings(keep_at=(5, 0)).check()


@pytest.mark.parametrize(
    ("words", "seeds"), [("3", (3,)), ("0 1 2", (0, 1, 2)), ("0-4", (0, 1, 2, 3, 4)), ("7 1-2", (7, 1, 2))]
)
def test_seeds_are_numbers_and_ranges(words: str, seeds: tuple[int, ...]) -> None:
    assert seeds_of(words.split()) == seeds


@pytest.mark.parametrize("word", ["one", "-1", "1-", "1-2-3", "1.5", ""])
def test_what_names_no_seed_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match=f"'{word}' is neither a seed"):
        seeds_of([word])


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValueError, match="'3-1' is no range of seeds"):
        seeds_of(["3-1"])


def test_positive_lets_what_was_not_given_pass() -> None:
    positive(**{"--a": None, "--b": 1e-9})
    with pytest.raises(UsageError, match="--c must be a positive number, got 0"):
        positive(**{"--a": None, "--b": 1e-9, "--c": 0})
