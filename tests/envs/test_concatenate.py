"""Vectors joined have the results of one vector."""

from functools import partial

from supple.envs import ConcatenatedVector, Vector, make_env
from tests.envs.pairs import assert_same, live


def test_vectors_joined_have_the_results_of_one_vector() -> None:
    makes = [partial(make_env, "cartpole", shifts="offset(over=90)", seed=seed, task=1) for seed in range(5)]
    parts = [Vector(makes[:2]), Vector(makes[2:4]), Vector(makes[4:])]
    one, joined = Vector(makes), ConcatenatedVector(parts)
    assert joined.num_envs == 5
    assert_same(one.reset(range(5)), joined.reset(range(5)))
    assert live(one, joined, 100, passed=2) > 5
    joined.close()
