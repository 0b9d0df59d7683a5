"""A saved model's weights, read without its pickles, with data of its own; and what is no such file."""

import copy
import zipfile
from pathlib import Path

import pytest
import torch

pytest.importorskip("stable_baselines3")

from stable_baselines3 import A2C, DQN, PPO, SAC

from supple.integrations.sb3 import learners_of_saved
from supple.metrics import diagnose

SMALL = {"policy_kwargs": {"net_arch": [8, 8]}}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("saved")
    files = {}
    for kind, env in ((PPO, "CartPole-v1"), (DQN, "CartPole-v1"), (SAC, "Pendulum-v1")):
        model = kind("MlpPolicy", env, seed=5, device="cpu", **copy.deepcopy(SMALL))  # type: ignore[arg-type]
        files[kind.__name__] = folder / f"{kind.__name__}.zip"
        model.save(files[kind.__name__])
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


@pytest.mark.parametrize("kind", [PPO, A2C])
def test_a_policy_over_numbered_actions_is_looked_at_by_its_logits(kind: type[PPO | A2C], tmp_path: Path) -> None:
    model = kind("MlpPolicy", "CartPole-v1", seed=5, device="cpu", **copy.deepcopy(SMALL))  # type: ignore[arg-type]
    with torch.no_grad():
        model.policy.action_net.bias[0] = 20.0  # one action only
    model.save(tmp_path / "model.zip")
    learner = learners_of_saved(tmp_path / "model.zip", kind.__name__, "CartPole-v1", steps=64, **SMALL)["policy"]
    (observations, _), parameters = learner.probe(), dict(learner.module.named_parameters())  # type: ignore[misc]
    logits, values = learner.outputs(parameters, (observations, True))
    assert torch.equal(logits, model.policy.get_distribution(observations).distribution.logits)  # type: ignore[union-attr]
    assert torch.equal(values, model.policy.predict_values(observations))
    found = diagnose(learner, updates=2)
    assert found.state == "silent"
    assert found.now.entropy < 1e-6 < 0.9 < found.new.entropy  # type: ignore[operator]


def test_its_pickles_are_never_opened(saved: dict[str, Path], tmp_path: Path) -> None:
    hostile = tmp_path / "hostile.zip"
    with zipfile.ZipFile(saved["PPO"]) as source, zipfile.ZipFile(hostile, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name) if name == "policy.pth" else b"cos\nsystem\n(S'exit 1'\ntR.")
    assert list(learners_of_saved(hostile, "PPO", "CartPole-v1", steps=64, **SMALL)) == ["policy"]


@pytest.mark.parametrize(
    ("algorithm", "env", "settings", "words"),
    [
        ("PPP", "CartPole-v1", {}, "unknown algorithm 'PPP': did you mean 'PPO'"),
        ("PPO", "Nowhere-v0", SMALL, "PPO with MlpPolicy on Nowhere-v0 cannot be made"),
        ("DQN", "Pendulum-v1", SMALL, "DQN with MlpPolicy on Pendulum-v1 cannot be made"),
        ("PPO", "CartPole-v1", {}, "its weights do not fit PPO with MlpPolicy: size mismatch"),
        ("DQN", "CartPole-v1", SMALL, "its weights do not fit DQN"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    saved: dict[str, Path], algorithm: str, env: str, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words) as refusal:
        learners_of_saved(saved["PPO"], algorithm, env, steps=64, **settings)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_a_file_that_is_none_of_sb3s_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "model.zip"
    if content is None:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("policy.pth", b"cos\nsystem\n(S'exit 1'\ntR.")
    else:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=r"model.zip is not a model of Stable-Baselines3|No such file"):
        learners_of_saved(file, "PPO", "CartPole-v1", **SMALL)
