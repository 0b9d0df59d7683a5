"""Learners of saved models, read without their pickles, and the errors for other files."""

import copy
import io
import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch

pytest.importorskip("stable_baselines3")

from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.envs import FakeImageEnv
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from supple.integrations.sb3 import learners_of_saved
from supple.metrics import diagnose
from tests.integrations.sb3.twins import small

pytestmark = pytest.mark.slow

SMALL = {"policy_kwargs": {"net_arch": [8, 8]}}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("saved")
    files = {}
    for kind in (PPO, DQN, SAC):
        files[kind.__name__] = folder / f"{kind.__name__}.zip"
        small(kind).learn(64).save(files[kind.__name__])
    return files


@pytest.mark.parametrize(
    ("algorithm", "env", "names"),
    [("PPO", "CartPole-v1", ["policy"]), ("DQN", "CartPole-v1", ["q"]), ("SAC", "Pendulum-v1", ["actor", "critic"])],
)
def test_its_learners_have_its_weights_and_data(
    saved: dict[str, Path], algorithm: str, env: str, names: list[str]
) -> None:
    learners = learners_of_saved(saved[algorithm], algorithm, env, steps=64, **SMALL)
    assert list(learners) == names
    kind = {"PPO": PPO, "DQN": DQN, "SAC": SAC}[algorithm]
    policy = kind.load(saved[algorithm], device="cpu").policy
    values = [p.detach() for learner in learners.values() for p in learner.module.parameters()]
    theirs = list(policy.parameters())
    assert all(any(value.shape == p.shape and torch.equal(value, p) for p in theirs) for value in values)
    found = [diagnose(learner, updates=2) for learner in learners.values()]
    assert all(each.now.units != each.new.units for each in found)


def test_its_pickles_are_never_opened(saved: dict[str, Path], tmp_path: Path) -> None:
    hostile = tmp_path / "hostile.zip"
    with zipfile.ZipFile(saved["PPO"]) as source, zipfile.ZipFile(hostile, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name) if name == "policy.pth" else b"cos\nsystem\n(S'exit 1'\ntR.")
    assert list(learners_of_saved(hostile, "PPO", "CartPole-v1", steps=64, **SMALL)) == ["policy"]


@pytest.mark.parametrize(
    ("algorithm", "env", "settings", "message"),
    [
        ("PPP", "CartPole-v1", {}, "unknown algorithm 'PPP': did you mean 'PPO'"),
        ("DQN", "Pendulum-v1", SMALL, "DQN with MlpPolicy on Pendulum-v1 cannot be made"),
        ("PPO", "CartPole-v1", {}, "its weights do not fit PPO with MlpPolicy: size mismatch"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    saved: dict[str, Path], algorithm: str, env: str, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as refusal:
        learners_of_saved(saved["PPO"], algorithm, env, steps=64, **settings)
    assert "\n" not in str(refusal.value)


def test_a_file_that_is_none_of_sb3s_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"model.zip is not a model of Stable-Baselines3"):
        learners_of_saved(tmp_path / "model.zip", "PPO", "CartPole-v1", **SMALL)


def policy(value: Any) -> bytes:
    data = io.BytesIO()
    torch.save(value, data)
    return data.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (policy({"a": 3}), "is no file of finite weights"),
        (policy({"a": torch.tensor([torch.nan])}), "has NaN or infinity"),
        (b"cos\nsystem\n(S'exit 1'\ntR.", "is no file of finite weights"),
    ],
)
def test_weights_that_are_none_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "odd.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("policy.pth", content)
    with pytest.raises(ValueError, match=message) as refusal:
        learners_of_saved(tmp_path / "odd.zip", "PPO", "CartPole-v1", **SMALL)
    assert "\n" not in str(refusal.value)


gym.register("SupplePixels-v0", FakeImageEnv, kwargs={"screen_height": 36, "screen_width": 36})


class Narrow(BaseFeaturesExtractor):
    """A features extractor of a user."""

    def __init__(self, space: gym.Space, width: int = 6) -> None:
        super().__init__(space, width)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


def test_before_1_7_extractors_had_one_name(tmp_path: Path) -> None:
    model = PPO("CnnPolicy", "SupplePixels-v0", n_steps=8, batch_size=8, seed=5, device="cpu")
    named = {n: v for n, v in model.policy.state_dict().items() if not n.startswith(("pi_feat", "vf_feat"))}
    old = tmp_path / "model.zip"
    with zipfile.ZipFile(old, "w") as target:
        target.writestr("policy.pth", policy(named))
    learner = learners_of_saved(old, "PPO", "SupplePixels-v0", "CnnPolicy", steps=8)["policy"]
    ours, theirs = learner.module.state_dict(), model.policy.state_dict()
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())
    assert not torch.equal(learner.initial["features_extractor.cnn.0.weight"], ours["features_extractor.cnn.0.weight"])
    apart = {"policy_kwargs": {"share_features_extractor": False}}
    with pytest.raises(ValueError, match=r"it lacks 'vf_features_extractor.cnn.0.weight'"):
        learners_of_saved(old, "PPO", "SupplePixels-v0", "CnnPolicy", steps=8, **apart)


@pytest.mark.parametrize("kind", [PPO, SAC])
def test_state_dependent_noise_is_read_from_the_weights(kind: Any, tmp_path: Path) -> None:
    small(kind, "Pendulum-v1", use_sde=True).save(tmp_path / "model.zip")
    found = learners_of_saved(tmp_path / "model.zip", kind.__name__, "Pendulum-v1", steps=16, **SMALL)
    assert all(diagnose(each, updates=1) for each in found.values())


def test_an_extractor_of_ones_own_is_given_with_the_policys_arguments(tmp_path: Path) -> None:
    kwargs = {"features_extractor_class": Narrow, "features_extractor_kwargs": {"width": 5}, **SMALL["policy_kwargs"]}
    model = small(PPO, policy_kwargs=copy.deepcopy(kwargs))
    model.save(tmp_path / "model.zip")
    learner = learners_of_saved(tmp_path / "model.zip", "PPO", "CartPole-v1", steps=16, policy_kwargs=kwargs)["policy"]
    assert torch.equal(learner.module.get_parameter("features_extractor.net.0.weight"),
                       model.policy.get_parameter("features_extractor.net.0.weight"))  # fmt: skip
    with pytest.raises(ValueError, match=r"'features_extractor.net.0.bias', .* which the network has not"):
        learners_of_saved(tmp_path / "model.zip", "PPO", "CartPole-v1", steps=16, **SMALL)
