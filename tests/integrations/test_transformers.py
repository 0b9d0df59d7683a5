"""The callback in the Trainer: hooks act, resumed training is the same, and what cannot work is refused.

With LoRA, the model below the adapter does not change, so that the saved adapter still fits it.
"""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

hf, peft = pytest.importorskip("transformers"), pytest.importorskip("peft")

from supple.integrations.transformers import SuppleCallback  # noqa: E402
from supple.interventions import fire_, learner_for, make  # noqa: E402
from supple.networks.causal import causal_learner  # noqa: E402
from supple.registry.errors import RunError  # noqa: E402

pytestmark = pytest.mark.slow

IDS = torch.randint(32, (64, 12), generator=torch.Generator().manual_seed(0))
TEXT = [{"input_ids": row, "labels": row} for row in IDS]
SIZES = {
    "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 8,
}  # fmt: skip


def model() -> Any:
    torch.manual_seed(0)
    return hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES))


def trainer(
    folder: Path,
    *callbacks: Any,
    of: Any = None,
    kind: Any = hf.Trainer,
    own: Any = None,
    data: Any = None,
    **more: Any,
) -> Any:
    arguments = {
        "max_steps": 8, "per_device_train_batch_size": 4, "learning_rate": 1e-2, "save_steps": 4, "report_to": [],
        "use_cpu": True, "disable_tqdm": True, "logging_steps": 1000, "save_strategy": "steps", "seed": 3,
        "lr_scheduler_type": "constant",
    }  # fmt: skip
    of, settings = of or model(), hf.TrainingArguments(output_dir=str(folder), **arguments | more)
    return kind(of, settings, train_dataset=data or TEXT, callbacks=list(callbacks), compute_loss_func=own)


def weights(of: Any) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in of.model.state_dict().items()}


def assert_same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_training_that_is_only_measured_is_training_without_the_callback(tmp_path: Path) -> None:
    plain, measured = trainer(tmp_path / "a"), trainer(tmp_path / "b", callback := SuppleCallback(measure_every=2))
    plain.train()
    measured.train()
    assert_same(weights(measured), weights(plain))
    logged = [row for row in measured.state.log_history if "supple/model/weight_norm" in row]
    assert [row["step"] for row in logged] == [2, 4, 6, 8]
    assert all("supple/model/dormant_fraction" in row and row["supple/model/update_ratio"] > 0 for row in logged)
    assert not callback.learner.module._forward_pre_hooks


def test_the_loss_on_the_last_batch_is_the_same_if_gradients_are_accumulated(tmp_path: Path) -> None:
    norms = []
    for count in (1, 4):
        given = {"data": TEXT[:1] * 16, "max_steps": 1, "gradient_accumulation_steps": count}
        measured = trainer(tmp_path / str(count), SuppleCallback(measure_every=1), **given)
        measured.train()
        (row,) = [row for row in measured.state.log_history if "supple/model/gradient_norm" in row]
        norms.append(row["supple/model/gradient_norm"])
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)


def test_a_hook_acts_between_two_updates_on_weights_and_the_optimizers_state(tmp_path: Path) -> None:
    class Copies(hf.TrainerCallback):
        """A callback that copies the state of model and optimizer after each step."""

        def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            inner = given["optimizer"].optimizer
            found[state.global_step] = copy.deepcopy((given["model"].state_dict(), inner.state_dict()["state"]))

    found: dict[int, Any] = {}
    told = trainer(tmp_path, SuppleCallback(["fire@0.5"], measure_every=0), Copies(), max_steps=4)
    told.train()
    plain = trainer(tmp_path / "plain", max_steps=2)
    plain.train()
    reference = plain.model
    learner = causal_learner(
        reference, plain.optimizer.optimizer, probe=lambda: None, loss=lambda: torch.zeros(()),
        generator=torch.Generator(),
    )  # fmt: skip
    make("fire").apply(learner)
    assert_same(found[2][0], reference.state_dict())
    slots = learner.optimizer.state_dict()["state"]  # type: ignore[union-attr]
    assert all(torch.equal(found[2][1][i][key], value) for i, each in slots.items() for key, value in each.items())


def test_penalties_are_part_of_the_gradient(tmp_path: Path) -> None:
    strong = trainer(tmp_path / "a", callback := SuppleCallback(["l2_init(strength=1000)"]), max_grad_norm=0.0)
    free = trainer(tmp_path / "b", max_grad_norm=0.0)
    start = weights(strong)
    strong.train()
    free.train()
    moved = [
        sum(float((value - start[name]).norm()) for name, value in weights(each).items()) for each in (strong, free)
    ]
    assert moved[0] < 0.5 * moved[1]
    assert callback.learner.initial["lm_head.weight"].equal(start["lm_head.weight"])


HOOKS = ["l2_init(strength=1e-2)", "weight_clip(kappa=1.2)", "upgd(sigma=0.01)", "snp(noise=0.1)@every:3", "reset@task"]


def test_a_training_that_goes_on_from_the_trainers_checkpoint_is_the_same(tmp_path: Path) -> None:
    def train(folder: Path, **more: Any) -> tuple[Any, SuppleCallback]:
        callback = SuppleCallback(HOOKS, measure_every=2)
        found = trainer(folder, callback, **more)

        class Switch(hf.TrainerCallback):
            def on_step_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
                if state.global_step == 5:
                    callback.new_task()

        found.add_callback(Switch())
        return found, callback

    whole, events = train(tmp_path / "whole")
    whole.train()
    (tmp_path / "whole/checkpoint-4").rename(tmp_path / "moved")
    again, later = train(tmp_path / "again")
    again.train(resume_from_checkpoint=str(tmp_path / "moved"))
    assert_same(weights(again), weights(whole))
    assert [e["step"] for e in events.events] == [3, 5, 6]
    assert [e["step"] for e in later.events] == [5, 6]
    rows = [
        [row for row in each.state.log_history if row["step"] == 8 and "supple/model/weight_norm" in row]
        for each in (whole, again)
    ]
    assert rows[0] == rows[1]


def test_another_model_is_looked_at_by_a_learner_of_its_own(tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Embedding(32, 8), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 32))

        def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
            logits = self.layers(input_ids)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), input_ids.flatten())
            return {"loss": loss, "logits": logits}

    def build(net: Any, optimizer: Any, recent: Any) -> Any:
        return learner_for(
            net, optimizer, name="net", loss=lambda: net(**recent())["loss"],
            probe=lambda: (batch := recent()) and (batch["input_ids"],),
        )  # fmt: skip

    with pytest.raises(ValueError, match=r"Net is no model of transformers.*learner=") as refusal:
        trainer(tmp_path, SuppleCallback(["fire@0.5"]), of=Net()).train()
    assert "\n" not in str(refusal.value)
    trainer(tmp_path, callback := SuppleCallback(["net/redo@4"], measure_every=4, learner=build), of=Net()).train()
    assert [e["learner"] for e in callback.events] == ["net"]


class Boxes(hf.Trainer):
    """A Trainer that has the labels as a list of dictionaries, as in detection, and its own loss."""

    def _prepare_inputs(self, inputs: Any) -> Any:
        inputs["labels"] = [{"ids": row} for row in inputs["labels"]]
        return inputs

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **more: Any) -> Any:
        wanted = torch.stack([label["ids"] for label in inputs.pop("labels")])
        return 3 * nn.functional.cross_entropy(model(**inputs).logits.flatten(0, 1), wanted.flatten())


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"label_smoothing_factor": 0.2},
        {"own": lambda outputs, *_, **__: outputs.logits.exp().mean()},
        {"kind": Boxes},
    ],
    ids=["model", "smoothed", "function", "trainer"],
)
def test_the_loss_that_is_measured_is_the_trainers_own(tmp_path: Path, more: dict[str, Any]) -> None:
    found = trainer(tmp_path, callback := SuppleCallback(measure_every=1), max_steps=1, learning_rate=0.0, **more)
    told = found.train().training_loss
    assert float(callback.learner.loss()) == pytest.approx(told)
    assert found.state.log_history[0]["supple/model/gradient_norm"] > 0
    assert found.compute_loss.__func__ is type(found).compute_loss


def begin(self: Any) -> None:
    self.callback_handler.on_train_begin(self.args, self.state, self.control)


@pytest.mark.parametrize("what", ["mixed_precision=fp16", "distributed_type=FSDP"])
def test_what_accelerates_environment_switches_on_is_asked_and_refused(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, (name, value) = trainer(tmp_path, SuppleCallback()), what.split("=")
    kinds = pytest.importorskip("accelerate.utils").DistributedType
    monkeypatch.setattr(type(found.accelerator), name, getattr(kinds, value, value))
    with pytest.raises(ValueError, match=value) as refusal:
        begin(found)
    assert "\n" not in str(refusal.value)


def test_a_checkpoint_that_was_saved_without_the_callback_is_told_so(tmp_path: Path) -> None:
    trainer(tmp_path).train()
    with pytest.raises(RunError, match="checkpoint-4 was saved without SuppleCallback"):
        trainer(tmp_path, SuppleCallback()).train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))


def adapted(**more: Any) -> Any:
    settings = {"r": 2, "target_modules": ["q_proj", "down_proj"], "task_type": "CAUSAL_LM"} | more
    return peft.get_peft_model(model(), peft.LoraConfig(**settings))


def train(net: Any, folder: Path, hooks: Sequence[str], data: Any = None) -> SuppleCallback:
    callback = SuppleCallback(hooks, measure_every=2)
    trainer(folder, callback, of=net, data=data, max_steps=4, save_strategy="no").train()
    return callback


def under(model: Any) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters() if not p.requires_grad}


KEEPING = [
    "weight_clip(kappa=0.1)", "snp(noise=0.1)@0.5", "snp(toward=fresh)@0.5", "reset(what=hidden)@0.5",
    "wasserstein", "hare_tortoise@0.5",
]  # fmt: skip


@pytest.mark.parametrize("hook", KEEPING)
def test_a_hook_keeps_the_model_under_an_adapter_and_the_saved_adapter_fits_it(tmp_path: Path, hook: str) -> None:
    net = adapted()
    before = under(net)
    train(net, tmp_path, [hook])
    after = under(net)
    assert before.keys() == after.keys()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    net.eval()
    net.save_pretrained(tmp_path / "adapter")
    again = peft.PeftModel.from_pretrained(model(), str(tmp_path / "adapter")).eval()
    with torch.no_grad():
        assert torch.equal(net(IDS[:2]).logits, again(IDS[:2]).logits)


@pytest.mark.parametrize("hook", ["fire@0.5", "parseval(scope=[query])", "redo@0.5", "sib"])
def test_what_is_not_defined_on_the_factors_is_refused_before_training(tmp_path: Path, hook: str) -> None:
    net = adapted()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(ValueError, match=r"adapters|not traced|no language model|frozen") as refusal:
        train(net, tmp_path, [hook])
    assert "\n" not in str(refusal.value)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_fire_writes_a_copied_head_beside_adapters_and_says_what_it_keeps(tmp_path: Path) -> None:
    net = adapted(modules_to_save=["lm_head"])
    before = under(net)
    callback = train(net, tmp_path, ["fire@0.5"])
    assert callback.events[0]["written"] == 1
    kept = callback.events[0]["contract"]["weights"]
    assert "frozen" in kept
    assert "a factor of an adapter" in kept
    after = under(net)
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_the_function_refuses_adapters_and_works_after_a_merge() -> None:
    net = adapted()
    with pytest.raises(ValueError, match="merge the adapter first"):
        fire_(net)
    merged = net.merge_and_unload().requires_grad_(True)
    assert len(fire_(merged)) == 8


@pytest.mark.parametrize(
    "build",
    [
        lambda: hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=32, n_positions=16, n_embd=8, n_layer=1, n_head=2)),
        lambda: hf.GPTNeoXForCausalLM(
            hf.GPTNeoXConfig(
                vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24
            )
        ),
        lambda: hf.T5ForConditionalGeneration(
            hf.T5Config(vocab_size=32, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2, decoder_start_token_id=0)
        ),
    ],
    ids=["gpt2", "neox", "t5"],
)
def test_other_text_models_are_fired_and_measured_in_the_trainer(tmp_path: Path, build: Any) -> None:
    torch.manual_seed(0)
    net = build()
    callback = train(net, tmp_path, ["fire(method=polar)@start"])
    event = callback.events[0]
    assert event["after"]["dfi_unscaled"] < event["before"]["dfi_unscaled"]
    assert "an embedding" in event["contract"]["weights"]


def test_an_image_classifier_is_fired_and_measured_in_the_trainer(tmp_path: Path) -> None:
    config = hf.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, image_size=16, patch_size=8,
        num_labels=3,
    )  # fmt: skip
    torch.manual_seed(0)
    data = [{"pixel_values": torch.randn(3, 16, 16), "labels": i % 3} for i in range(16)]
    callback = train(hf.ViTForImageClassification(config), tmp_path, ["fire(method=polar)@0.5"], data)
    assert callback.events[0]["after"]["dfi_unscaled"] < 1e-6
    assert "dormant_fraction" in callback.events[0]["after"]
