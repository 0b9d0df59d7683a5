"""Measuring does not change a run of SB3: default policies of all algorithms, also after saving and loading."""

from pathlib import Path

import pytest
import torch

pytest.importorskip("stable_baselines3")

from tests.integrations.sb3.twins import ALGORITHMS, require_undisturbed, require_unharmed

pytestmark = pytest.mark.slow

FAST = [*((a, "CnnPolicy") for a in ALGORITHMS), ("PPO", "MultiInputPolicy"), ("DQN", "MlpPolicy")]  # all: tests/stress


@pytest.mark.parametrize(("algorithm", "policy"), FAST)
def test_a_measured_run_is_bit_for_bit_the_run_without_the_callback(
    algorithm: str, policy: str, tmp_path: Path
) -> None:
    require_unharmed(algorithm, policy, tmp_path)


def test_a_diagnosis_of_the_default_policy_for_images_leaves_it_as_it_was() -> None:
    model = require_undisturbed("PPO", "CnnPolicy")
    weight = model.policy.features_extractor.cnn[0].weight
    start = weight.detach().clone()
    model.learn(16)
    assert not torch.equal(weight, start)  # its optimizer still knows it
