"""LoRA in the Trainer: the model below the adapter does not change, so that the saved adapter still fits it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

hf = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

from supple.integrations.transformers import SuppleCallback  # noqa: E402
from supple.interventions import fire_  # noqa: E402
from tests.integrations.test_transformers import model as base  # noqa: E402
from tests.integrations.test_transformers import trainer  # noqa: E402

pytestmark = pytest.mark.slow

IDS = torch.randint(32, (64, 12), generator=torch.Generator().manual_seed(0))


def adapted(**more: Any) -> Any:
    settings = {"r": 2, "target_modules": ["q_proj", "down_proj"], "task_type": "CAUSAL_LM"} | more
    return peft.get_peft_model(base(), peft.LoraConfig(**settings))


def train(model: Any, folder: Path, hooks: Sequence[str], data: Any = None) -> SuppleCallback:
    callback = SuppleCallback(hooks, measure_every=2)
    trainer(folder, callback, of=model, data=data, max_steps=4, save_strategy="no").train()
    return callback


def under(model: Any) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters() if not p.requires_grad}


HOOKS = [
    "weight_clip(kappa=0.1)", "snp(noise=0.1)@0.5", "snp(toward=fresh)@0.5", "reset(what=hidden)@0.5",
    "wasserstein", "hare_tortoise@0.5",
]  # fmt: skip


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_keeps_the_model_under_an_adapter_and_the_saved_adapter_fits_it(tmp_path: Path, hook: str) -> None:
    model = adapted()
    before = under(model)
    train(model, tmp_path, [hook])
    after = under(model)
    assert before.keys() == after.keys()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    model.eval()
    model.save_pretrained(tmp_path / "adapter")
    again = peft.PeftModel.from_pretrained(base(), str(tmp_path / "adapter")).eval()
    with torch.no_grad():
        assert torch.equal(model(IDS[:2]).logits, again(IDS[:2]).logits)


@pytest.mark.parametrize("hook", ["fire@0.5", "parseval(scope=[query])", "redo@0.5", "sib"])
def test_what_is_not_defined_on_the_factors_is_refused_before_training(tmp_path: Path, hook: str) -> None:
    model = adapted()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=r"adapters|gated MLP|no language model|frozen") as refusal:
        train(model, tmp_path, [hook])
    assert "\n" not in str(refusal.value)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_fire_writes_a_copied_head_beside_adapters_and_says_what_it_keeps(tmp_path: Path) -> None:
    model = adapted(modules_to_save=["lm_head"])
    before = under(model)
    callback = train(model, tmp_path, ["fire@0.5"])
    assert callback.events[0]["written"] == 1
    kept = callback.events[0]["contract"]["weights"]
    assert "frozen" in kept
    assert "a factor of an adapter" in kept
    after = under(model)
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_the_function_refuses_adapters_and_works_after_a_merge() -> None:
    model = adapted()
    with pytest.raises(ValueError, match="merge the adapter first"):
        fire_(model)
    merged = model.merge_and_unload().requires_grad_(True)
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
    model = build()
    callback = train(model, tmp_path, ["fire(method=polar)@start"])
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


def test_a_network_that_is_no_model_of_transformers_is_refused_with_what_to_do(tmp_path: Path) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(12, 2)

        def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
            return {"loss": self.layer(input_ids.float()).mean()}

    with pytest.raises(ValueError, match=r"Net is no model of transformers.*learner=") as refusal:
        train(Net(), tmp_path, ["fire@0.5"])
    assert "\n" not in str(refusal.value)
