"""Seeds for every purpose from the one seed of a run."""

import torch

from supple.engine.seeding import derive, generator


def test_a_seed_is_the_same_on_every_machine_and_in_every_version() -> None:
    """Frozen values: a change here changes every published run."""
    assert derive(0) == 7520536977032167579
    assert derive(0, "envs", 3) == 1139887413200009972


def test_purposes_seeds_and_their_order_give_different_seeds() -> None:
    paths = [
        (s, *p)
        for s in (*range(20), 2**70)
        for p in [(), ("a",), ("b",), ("a", 0), ("a", 1), (0, "a"), (0,), (1,), (2**33,), (0, 2)]
    ]
    seeds = {derive(*path) for path in paths}
    assert len(seeds) == len(paths)
    assert 0 <= min(seeds) < max(seeds) < 2**63  # fits every generator


def test_generators_of_one_purpose_draw_alike_and_of_two_differently() -> None:
    first, again, other = (torch.rand(8, generator=generator(3, name)) for name in ("noise", "noise", "shuffle"))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
