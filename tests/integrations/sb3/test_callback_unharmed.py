"""Measuring does not change a run of SB3: default policies of all algorithms, also after saving and loading."""

from pathlib import Path

import pytest
import torch

pytest.importorskip("stable_baselines3")


from supple.agents.sb3 import SuppleCallback, learners_of
from supple.metrics import diagnose, trainability
from tests.integrations.sb3.twins import ALGORITHMS, POLICIES, assert_same, env_for, model_of, objects, result

pytestmark = pytest.mark.slow

CASES = [(algorithm, policy) for algorithm in ALGORITHMS for policy in POLICIES]
FAST = [(a, p) for a, p in CASES if p == "CnnPolicy" or a in ("PPO", "DQN")]  # all of them: tests/stress


@pytest.mark.parametrize(("algorithm", "policy"), FAST)
def test_a_measured_run_is_bit_for_bit_the_run_without_the_callback(algorithm: str, policy: str) -> None:
    ends = []
    for callback in (None, SuppleCallback(measure_every=8)):
        model = model_of(algorithm, policy)
        before = objects(model)
        model.learn(32, callback=callback)
        assert objects(model) == before
        ends.append(result(model))
    assert_same(*ends)


@pytest.mark.parametrize("algorithm", ["PPO", "SAC"])
def test_a_measured_run_that_was_saved_and_loaded_is_bit_for_bit_the_run_without_the_callback(
    algorithm: str, tmp_path: Path
) -> None:
    ends = []
    for callback in (None, SuppleCallback(measure_every=8)):
        model_of(algorithm, "CnnPolicy").learn(16, callback=callback).save(tmp_path / "model")
        model = ALGORITHMS[algorithm].load(tmp_path / "model", env=env_for(algorithm, "CnnPolicy"), device="cpu")
        ends.append(result(model.learn(16, callback=callback, reset_num_timesteps=False)))
    assert_same(*ends)


def test_a_diagnosis_of_the_default_policy_for_images_leaves_it_as_it_was() -> None:
    model = model_of("PPO", "CnnPolicy").learn(16)
    before, ids = result(model), objects(model)
    for learner in learners_of(model).values():
        fit = trainability(learner, updates=2)
        assert fit is not None
        assert 0 < float(fit.loss) < 1
        assert diagnose(learner, updates=2).now.units
    assert_same(result(model), before)
    assert objects(model) == ids
    weight = model.policy.features_extractor.cnn[0].weight
    start = weight.detach().clone()
    model.learn(16)
    assert not torch.equal(weight, start)  # its optimizer still knows it
