"""Vectors joined have the results of one vector."""

from functools import partial

import numpy as np
import pytest

from supple.envs import ConcatenatedVector, EnvironmentFault, Vector, make_env
from tests.envs.pairs import assert_same, live


def test_vectors_joined_have_the_results_of_one_vector() -> None:
    makes = [partial(make_env, "cartpole", shifts="offset(over=90)", seed=seed, task=1) for seed in range(5)]
    parts = [Vector(makes[:2]), Vector(makes[2:4]), Vector(makes[4:])]
    one, joined = Vector(makes), ConcatenatedVector(parts)
    assert joined.num_envs == 5
    assert_same(one.reset(range(5)), joined.reset(range(5)))
    assert live(one, joined, 100, passed=2) > 5
    joined.close()


def test_misuse_is_refused_in_one_line() -> None:
    vectors = [Vector([partial(make_env, name)]) for name in ("cartpole", "acrobot")]
    with pytest.raises(EnvironmentFault, match="its vectors have different spaces"):
        ConcatenatedVector(vectors)
    joined = ConcatenatedVector(vectors[:1] * 2)
    with pytest.raises(ValueError, match="2 environments need as many seeds, got 3"):
        joined.reset(range(3))
    with pytest.raises(ValueError, match="2 environments need as many actions, got 1"):
        joined.step(np.zeros(1, np.int64))
