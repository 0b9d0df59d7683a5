"""Settings that cannot work are refused in one line that names the option."""

from dataclasses import replace
from typing import Any

import pytest

from supple.engine.kinds import all_kinds, settings_with
from supple.engine.settings import RunSettings, seeds_of
from supple.registry.errors import UsageError


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"threads": 1025}, "--threads must be 1,024 at most"),
        ({"checkpoint_every": 0}, "--checkpoint-every must be a positive number, got 0"),
        ({"seed": -1, "eval_every": -1}, "--seed must be 0 or more, got -1; --eval-every must be 0 or more, got -1"),
    ],
)
def test_all_numbers_that_are_not_possible_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        replace(RunSettings(), **settings).check()
    RunSettings(seed=0, eval_every=0, keep_at=(5,)).check()


@pytest.mark.parametrize(
    ("words", "seeds"), [("3", (3,)), ("0 1 2", (0, 1, 2)), ("0-4", (0, 1, 2, 3, 4)), ("7,1-2", (7, 1, 2))]
)
def test_seeds_are_numbers_and_ranges(words: str, seeds: tuple[int, ...]) -> None:
    assert seeds_of(words) == seeds_of(words.split()) == seeds
    assert settings_with(all_kinds()["ppo"], None, {"seeds": words}).members == seeds


@pytest.mark.parametrize(
    ("word", "says"),
    [*((word, "is neither a seed") for word in ("one", "-1", "1.5")), ("3-1", "is no range of seeds")],
)
def test_what_names_no_seed_is_refused(word: str, says: str) -> None:
    with pytest.raises(ValueError, match=f"'{word}' {says}"):
        seeds_of([word])
