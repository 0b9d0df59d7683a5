"""`supple doctor` on runs, users' functions, models of SB3 and language models: what it prints, writes and refuses."""

import json
import re
from pathlib import Path

import pytest

from supple.registry.errors import RunError, UsageError
from supple.scripts.main import dispatch

NETWORK = """
import torch
from torch import nn

def network():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    new = {name: value.clone() for name, value in net.state_dict().items()}
    with torch.no_grad():
        net[2].bias.fill_(-100.0)
    return net, torch.randn(64, 5), new

def nothing():
    return None

class Spoilt(nn.Linear):
    def forward(self, x):
        return super().forward(x) * torch.nan

def spoilt():
    return Spoilt(5, 3), torch.randn(64, 5)
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(NETWORK)
    return tmp_path / "mine.py"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("doctor") / "run"
    words = (
        "train ppo --env CartPole-v1 --steps 240 --num-envs 2 --rollout-steps 20 --minibatch-size 10 --epochs 1 "
        "--hidden 8 --adapter 8 --compile off --checkpoint-every 80 --keep-checkpoints 5 --eval-episodes 0"
    )
    dispatch([*words.split(), "--hook", "fire@0.5", "--out", str(path)])
    return path


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_a_run_is_diagnosed_at_each_checkpoint_and_not_changed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    dispatch(["doctor", str(run), "--updates", "3", "--out", str(tmp_path / "out")])
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before
    found = json.loads((tmp_path / "out/doctor.json").read_text())
    assert [stage["step"] for stage in found["stages"]] == [80, 160, 240]
    assert {stage["learner"] for stage in found["stages"]} == {"agent"}
    assert len({stage["now"]["numbers"]["weight_norm"] for stage in found["stages"]}) == 3
    assert len({stage["new"]["numbers"]["weight_norm"] for stage in found["stages"]}) == 1
    words = said(capsys)
    assert all(" ".join(sentence.split()) in words for sentence in found["verdict"])
    page = (tmp_path / "out/index.html").read_text()
    assert "Does run still learn?" in page
    assert (tmp_path / "out/checkpoints.png").read_bytes()[:4] == b"\x89PNG"
    assert not re.search(r"https?://", page)


def test_a_users_network_is_diagnosed_and_interventions_are_tried_on_it(
    code: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dispatch(["doctor", f"{code}:network", "--try", "redo", "fire"])
    words = said(capsys)
    assert "'model' has lost plasticity." in words
    assert "3 (100% of 16 units dormant, at initialisation 1" in words
    assert re.search(r"3 16 100% \(1\d%\) 100% \(\d\d%\) 0 \(\d", words)  # the table's row
    losses = [float(loss) for loss in re.findall(r"to ([\d.]+) of their variance", words)]
    assert losses[0] < 0.5 < losses[1]  # fire leaves biases alone


def test_models_of_sb3_and_language_models_are_diagnosed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    pytest.importorskip("transformers")
    sb3.DQN("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [8]}).save(tmp_path / "model.zip")
    options = "--sb3 DQN --env CartPole-v1 --net-arch 8 --steps 64 --updates 2"
    dispatch(["doctor", str(tmp_path / "model.zip"), *options.split()])
    assert "'q'" in said(capsys)
    with pytest.raises(UsageError, match="--net-arch"):
        dispatch(["doctor", str(tmp_path / "model.zip"), *options.replace("--net-arch 8", "").split()])
    (tmp_path / "text.txt").write_text("the quick brown fox " * 200)
    dispatch(["doctor", "llama:32x1", "--text", str(tmp_path / "text.txt"), "--updates", "1"])
    assert "'model'" in said(capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nowhere", "nowhere is not a run directory"),
        ("nowhere.zip", "needs --sb3 ALGORITHM and --env ENVIRONMENT"),
        ("nowhere.zip --sb3 DQN --env CartPole-v1", "nowhere.zip: No such file"),
        ("nowhere.py:network", "no such file: nowhere.py"),
        ("{code}:nothing", "must return (module, inputs)"),
        ("{code}:spoilt", "its outputs contain NaN or infinity"),
        ("{code}:network --try fire@task", "give an intervention alone"),
        ("{code}:network --try snp(", "--try snp(: unexpected end at character 5"),
        ("{code}:network --try l2_init", "l2_init cannot be tried out"),
        ("{code}:network --learner critic", "--learner critic: "),
        ("{code}:network --updates 0", "--updates must be"),
        ("{code}:network --out {code}", "already holds other files"),
        ("{code}:network --policy-kwargs {code}:kw", "--policy-kwargs is for a .zip of Stable-Baselines3, but"),
        ("nowhere.zip --sb3 DQN --env CartPole-v1 --forward act", "--forward is for FILE.py:FUNCTION, but nowhere.zip"),
        ("llama:32x1 --text nowhere.txt", "--text nowhere.txt: no such file"),
    ],
)
def test_what_cannot_be_diagnosed_is_refused_in_one_line(code: Path, words: str, message: str) -> None:
    with pytest.raises((UsageError, RunError)) as refusal:
        dispatch(["doctor", *words.format(code=code).split()])
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_run_without_a_checkpoint_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/config.json").write_bytes((run / "config.json").read_bytes())
    with pytest.raises(RunError, match="has no checkpoint yet"):
        dispatch(["doctor", str(tmp_path / "run")])


def test_a_network_is_compared_with_a_newly_made_one_and_remarks_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "anew.py").write_text(ANEW)
    dispatch(["doctor", f"{tmp_path / 'anew.py'}:anew", "--updates", "2", "--out", str(tmp_path / "out")])
    words = said(capsys)
    assert "Equal under two seeds, so not redrawn: 'grid'." in words
    found = json.loads((tmp_path / "out/doctor.json").read_text())
    assert found["remarks"] == ["Equal under two seeds, so not redrawn: 'grid'."]
    norms = [found["stages"][0][of]["numbers"]["weight_norm"] for of in ("now", "new")]
    assert norms[0] > 10 * norms[1]
    assert "so not redrawn" in (tmp_path / "out/index.html").read_text()
    dispatch(["doctor", f"{tmp_path / 'anew.py'}:agent", "--forward", "values", "--updates", "2"])
    assert "'model'" in said(capsys)


ANEW = """
import torch
from torch import nn

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.grid = nn.Parameter(torch.linspace(-1, 1, 5))
        self.body = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))

    def values(self, x):
        return self.body(x + self.grid)

class Net(Own):
    def forward(self, x):
        return self.values(x)

X = torch.randn(32, 5, generator=torch.Generator().manual_seed(0))

def trained(net):
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(20)
    return net

def anew():
    return trained(Net()), X, Net

def agent():
    return trained(Own()), X, Own
"""

KWARGS = """
import torch
from torch import nn
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

class Narrow(BaseFeaturesExtractor):
    def __init__(self, space, width=6):
        super().__init__(space, width)
        self.net = nn.Sequential(nn.Linear(4, width), nn.ReLU())

    def forward(self, x):
        return self.net(x)

class Loaded(Narrow):
    def __init__(self, space, width=6):
        super().__init__(space, width)
        with torch.no_grad():
            self.net[0].weight.copy_(torch.linspace(-1, 1, 4 * width).view(width, 4))

given = dict(features_extractor_class=Narrow, net_arch=[8])

def made():
    return given

loaded = dict(features_extractor_class=Loaded, net_arch=[8], ortho_init=False)
number = 3

def fails():
    raise KeyError("width")
"""


def test_a_users_features_extractor_is_given_by_policy_kwargs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    file, model = tmp_path / "kwargs.py", tmp_path / "model.zip"
    file.write_text(KWARGS)
    from supple.engine.user_code.networks import load_named

    kwargs = load_named(f"{file}:given", "test")
    made = sb3.PPO("MlpPolicy", "CartPole-v1", policy_kwargs=dict(kwargs), n_steps=8, batch_size=8, device="cpu")
    made.save(model)
    call = ["doctor", str(model), *["--sb3", "PPO", "--env", "CartPole-v1", "--steps", "32", "--updates", "2"]]
    for name in ("given", "made"):
        dispatch([*call, "--policy-kwargs", f"{file}:{name}"])
        assert "features_extractor.net.0" in said(capsys)
    dispatch([*call, "--policy-kwargs", f"{file}:loaded"])
    assert "Equal under two seeds, so not redrawn: 'features_extractor.net.0.weight'." in said(capsys)
    for words, message in (
        ("", "features extractor of your own and other arguments of the policy by --policy-kwargs FILE.py:NAME"),
        (f"--policy-kwargs {file}:nothing", "does not define nothing"),
        (f"--policy-kwargs {file}:number", "must be a dictionary, or a function that returns one, but is int"),
        (f"--policy-kwargs {file}:given --net-arch 8", "has a net_arch: leave out --net-arch"),
    ):
        with pytest.raises(UsageError) as refusal:
            dispatch([*call, *words.split()])
        assert message in str(refusal.value)
        assert "\n" not in str(refusal.value)


@pytest.mark.slow
def test_a_seed_of_a_stack_is_examined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "train ppo --env CartPole-v1 --steps 80 --num-envs 2 --rollout-steps 20 --minibatch-size 10 --epochs 1 "
        "--hidden 8 --adapter 8 --compile off --eval-episodes 0 --checkpoint-every 80 --seeds 3 8"
    )
    run, norms = tmp_path / "stack", []
    dispatch([*words.split(), "--out", str(run)])
    for number, more in enumerate(([], ["--seed", "3"], ["--seed", "8"])):
        dispatch(["doctor", str(run), "--updates", "2", "--out", str(tmp_path / str(number)), *more])
        norms.append(json.loads((tmp_path / str(number) / "doctor.json").read_text())["stages"][-1]["now"]["norms"])
    assert norms[0] == norms[1] != norms[2]
    assert "The run trained the seeds 3, 8 as a stack; this is seed 3." in said(capsys)
    with pytest.raises(UsageError, match=r"--seed 4: .* has only seed 3, 8$"):
        dispatch(["doctor", str(run), "--seed", "4"])
