"""The callback in Lightning: hooks act, resumed training is the same, and what cannot work is refused."""

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("lightning")

import lightning
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import FSDPStrategy

from supple.integrations.lightning import SuppleCallback
from supple.interventions import learner_for, make

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning:lightning", "ignore:.*:FutureWarning")]
X = torch.randn(32, 6, generator=torch.Generator().manual_seed(1))
Y = torch.randn(32, 2, generator=torch.Generator().manual_seed(2))


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.net(x)
        return found

    def training_step(self, batch: Any, index: int) -> Tensor:
        return nn.functional.mse_loss(self(batch[0]), batch[1])

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def loss(module: Any, batch: Any) -> Tensor:
    return nn.functional.mse_loss(module(batch[0]), batch[1])


def fit(folder: Path, *callbacks: Any, ckpt: Path | None = None, module: Any = None, **more: Any) -> tuple[Any, Any]:
    module = module or Module()
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=8)
    settings = {"max_steps": 8, "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(
        default_root_dir=folder, accelerator="cpu", callbacks=list(callbacks),
        enable_checkpointing=any(isinstance(c, ModelCheckpoint) for c in callbacks), **settings | more,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("default", message=".*does not fire")
        trainer.fit(module, data, ckpt_path=ckpt, weights_only=None if ckpt is None else True)
    return trainer, module


def assert_same(ours: nn.Module, theirs: nn.Module) -> None:
    values = theirs.state_dict()
    assert all(torch.equal(value, values[name]) for name, value in ours.state_dict().items())


def test_training_that_is_only_measured_is_training_without_the_callback(tmp_path: Path) -> None:
    _, plain = fit(tmp_path)
    trainer, measured = fit(tmp_path, SuppleCallback(measure_every=2, loss=loss))
    assert_same(measured, plain)
    assert {"supple/model/weight_norm", "supple/model/dormant_fraction"} <= trainer.callback_metrics.keys()


def test_a_hook_acts_between_two_updates(tmp_path: Path) -> None:
    _, told = fit(tmp_path, callback := SuppleCallback(["fire@1.0"], measure_every=0), max_steps=2)
    trainer, plain = fit(tmp_path, max_steps=2)
    make("fire").apply(learner_for(plain, trainer.optimizers[0]))
    assert_same(told, plain)
    assert [event["step"] for event in callback.events] == [2]


def test_updates_are_counted_where_gradients_are_accumulated(tmp_path: Path) -> None:
    callback = SuppleCallback(["snp(lam=0.001,noise=0)@every:2", "weight_clip(kappa=0.5)"], loss=loss)
    _, module = fit(tmp_path, callback, max_steps=4, accumulate_grad_batches=2)
    assert [event["step"] for event in callback.events] == [2, 4]
    for name, value in module.named_parameters():
        fan_in = module.get_parameter(f"{name.rpartition('.')[0]}.weight").shape[1]
        assert value.abs().max() <= 1.01 * 0.5 / fan_in**0.5  # snp moves it toward θ₀ behind the clipping


def test_penalties_are_part_of_the_gradient(tmp_path: Path) -> None:
    start = Module()
    _, strong = fit(tmp_path, SuppleCallback(["l2_init(strength=1000)"]))
    _, free = fit(tmp_path)
    moved = [
        sum(float((a - b).detach().norm()) for a, b in zip(net.parameters(), start.parameters(), strict=True))
        for net in (strong, free)
    ]
    assert moved[0] < 0.5 * moved[1]


def test_a_training_that_goes_on_from_lightnings_checkpoint_is_the_same(tmp_path: Path) -> None:
    hooks = ["l2_init(strength=1e-2)", "upgd(sigma=0.01)", "snp(noise=0.1)@every:3", "redo@when:weight_norm>0"]

    def train(folder: Path, **more: Any) -> tuple[Any, SuppleCallback]:
        callback = SuppleCallback(hooks, measure_every=2, loss=loss)
        saver = ModelCheckpoint(folder, filename="{step}", every_n_train_steps=4, save_top_k=-1)
        return fit(folder, callback, saver, **more)[1], callback

    whole, events = train(tmp_path / "whole")
    again, later = train(tmp_path / "again", ckpt=tmp_path / "whole/step=4.ckpt")
    assert_same(again, whole)
    assert [event["step"] for event in events.events] == [2, 3, 6]
    assert [event["step"] for event in later.events] == [6]


def test_a_training_that_was_saved_without_the_callback_goes_on_with_hooks_that_begin_there(tmp_path: Path) -> None:
    saver = ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=4, save_top_k=-1)
    fit(tmp_path, saver)
    callback = SuppleCallback(["fire@0.25", "snp@start", "snp@0.75"], measure_every=0)
    with pytest.warns(UserWarning, match=r"fire@0\.25 does not fire: learning continues at step 4 of 8") as told:
        fit(tmp_path, callback, ckpt=tmp_path / "step=4.ckpt")
    assert sum("does not fire" in str(each.message) for each in told) == 1
    assert [(event["step"], event["hook"]) for event in callback.events] == [(4, "snp@start"), (6, "snp@0.75")]


@pytest.mark.parametrize(
    ("hooks", "more", "message"),
    [
        (["injection@0.5"], {}, "injection@0.5 replaces parts of the network or its optimizer"),
        (["model/fire@0.5"], {"max_steps": -1, "max_epochs": -1}, "max_steps"),
        (["critic/fire@0.5"], {}, "unknown learner 'critic'"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line_before_training(
    tmp_path: Path, hooks: list[str], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as refusal:
        fit(tmp_path, SuppleCallback(hooks), **more)
    assert "\n" not in str(refusal.value)


def trainer(optimizers: int = 1, strategy: Any = None) -> Any:
    return SimpleNamespace(optimizers=[None] * optimizers, strategy=strategy, world_size=1)


@pytest.mark.parametrize(
    ("trainer", "automatic", "message"),
    [
        (trainer(), False, "but Module has 1, and automatic_optimization is False"),
        (trainer(optimizers=2), True, "needs one optimizer .* but Module has 2"),
        (trainer(strategy=FSDPStrategy()), True, "in one process, not FSDPStrategy"),
    ],
)
def test_what_is_in_force_in_the_trainer_is_asked_and_refused_by_name(
    trainer: Any, automatic: bool, message: str
) -> None:
    module = Module()
    module.automatic_optimization = automatic
    with pytest.raises(ValueError, match=message):
        SuppleCallback().on_train_start(trainer, module)
