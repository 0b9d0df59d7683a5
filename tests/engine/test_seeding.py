"""Seeds for every purpose from the one seed of a run."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.engine.seeding import derive, generator

words = st.one_of(st.integers(0, 2**40), st.text(max_size=8))


def test_a_seed_is_the_same_on_every_machine_and_in_every_version() -> None:
    """Frozen values: a change here changes every published run."""
    assert derive(0) == 7520536977032167579
    assert derive(0, "envs", 3) == 1139887413200009972


@pytest.mark.slow
@settings(max_examples=50)
@given(seed=st.integers(0, 2**70), path=st.lists(words, max_size=4))
def test_a_seed_fits_every_generator(seed: int, path: list[int | str]) -> None:
    assert 0 <= derive(seed, *path) < 2**63
    generator(seed, *path)


def test_purposes_seeds_and_their_order_give_different_seeds() -> None:
    paths = [
        (s, *p)
        for s in range(20)
        for p in [(), ("a",), ("b",), ("a", 0), ("a", 1), (0, "a"), (0,), (1,), (2**33,), (0, 2)]
    ]
    assert len({derive(*path) for path in paths}) == len(paths)


def test_generators_of_one_purpose_draw_alike_and_of_two_differently() -> None:
    first, again, other = (torch.rand(8, generator=generator(3, name)) for name in ("noise", "noise", "shuffle"))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
