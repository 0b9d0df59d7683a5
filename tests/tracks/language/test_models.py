import sys
from pathlib import Path

import huggingface_hub
import pytest
import torch
import transformers as hf

from supple.interventions import make
from supple.metrics import View, hessian_eigenvalues, measure
from supple.networks.causal import causal_layers, causal_learner
from supple.tracks.language import models
from supple.tracks.language.models import (
    LanguageModel,
    load_model,
    save_model,
)
from supple.tracks.language.tiny_llama import byte_tokenizer
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow

SIZES = {
    "vocab_size": 261, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 4,
}  # fmt: skip
TOKENS = torch.tensor([[72, 101, 108, 108, 111], [1, 2, 3, 4, 5]])


def tied() -> LanguageModel:
    torch.manual_seed(0)
    model = hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES, tie_word_embeddings=True))
    return LanguageModel(model.eval(), byte_tokenizer(), "tied")


def test_new_models_have_the_weights_of_their_seed_and_move_no_generator() -> None:
    before = torch.get_rng_state()
    one, again, other = (load_model("llama:32x2", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    weights = [lm.model.get_parameter("lm_head.weight") for lm in (one, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_saved_model_is_loaded_in_float32_with_the_same_weights_and_tokens(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    lm = tied()
    lm.model.to(dtype)
    save_model(lm, tmp_path / "deep" / "model")
    save_model(lm, tmp_path / "deep" / "model")  # over the first
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["model"]
    back = load_model(str(tmp_path / "deep" / "model"))
    assert {p.dtype for p in back.model.parameters()} == {torch.float32}
    assert all(map(torch.equal, back.model.parameters(), lm.model.float().parameters()))
    assert torch.equal(back.model(TOKENS).logits, tied().model(TOKENS).logits) == (dtype == torch.float32)
    assert back.model.lm_head.weight is back.model.model.embed_tokens.weight
    assert back.tokenizer("Hé<|end|>").input_ids == lm.tokenizer("Hé<|end|>").input_ids
    assert back.tokenizer.chat_template == lm.tokenizer.chat_template


def fails(*args: object, **settings: object) -> None:
    raise OSError("no network\nand more")


def test_a_name_that_is_no_model_is_refused_without_asking_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "read_from_hub", fails)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    for name, words in (
        ("runs/model", "no such model"),  # a path, for its folder is here
        (str(tmp_path / "runs"), "no config.json"),
        ("model.gguf", "no such model"),
        ("llama:big", "llama:WIDTHxLAYERS"),
    ):
        assert words in refusal(load_model, name)


def test_the_hubs_own_cache_is_enough_and_without_it_a_hint_at_local_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", fails)
    monkeypatch.setattr(models, "_pretrained", fails)
    assert "loaded from the hub (OSError: no network" in refusal(load_model, "some/model")
    monkeypatch.setattr(hf.AutoConfig, "from_pretrained", lambda name, local_files_only: hf.CLIPConfig())
    assert models.model_type("some/clip") == "clip"
    assert models.model_type("llama:32x1") == models.model_type("nowhere") == ""


def test_damaged_folders_and_missing_weights_are_one_line_that_names_the_folder(tmp_path: Path) -> None:
    save_model(tied(), tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text().replace('"num_hidden_layers": 2', '"num_hidden_layers": 3'))
    assert "9 weights are missing, such as model" in refusal(load_model, str(tmp_path / "model"))
    (tmp_path / "model" / "model.safetensors").write_bytes(b"not weights")
    assert "model: not a causal language model that can be read" in refusal(load_model, str(tmp_path / "model"))


def test_without_transformers_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert "pip install 'supple[language]'" in refusal(load_model, "llama:32x1")


@pytest.mark.parametrize(
    ("kind", "config"), [(hf.LlamaForCausalLM, hf.LlamaConfig), (hf.Gemma2ForCausalLM, hf.Gemma2Config)]
)
def test_layers_are_those_of_a_forward_pass_with_their_parts(kind: type, config: type) -> None:
    model = kind(config(**SIZES))
    layers = causal_layers(model)
    called: list[torch.nn.Module] = []
    for layer in layers:
        layer.module.register_forward_hook(lambda module, *_: called.append(module))
    model(TOKENS)
    parts = ["query", "key", "value", "output", "gate", "up", "down"]
    assert [layer.part for layer in layers] == [*parts, *parts, "head"]
    assert [layer.depth for layer in layers[:8]] == [0, 0, 0, 1, 2, 2, 3, 4]
    assert [layer.role for layer in layers[-2:]] == ["hidden", "head"]
    assert sorted(map(id, called)) == sorted(id(layer.module) for layer in layers)
    assert called[-1] is layers[-1].module


def test_the_learner_supports_metrics_hooks_fresh_draws_and_second_derivatives() -> None:
    model = tied().model
    learner, same = (
        causal_learner(
            model, None, probe=lambda: (TOKENS,), loss=lambda: model(TOKENS, labels=TOKENS).loss,
            generator=torch.Generator().manual_seed(0),
        )
        for _ in range(2)
    )  # fmt: skip
    assert learner.units == ("model.layers.0.mlp.act_fn", "model.layers.1.mlp.act_fn")
    assert measure(View(learner), True)["srank"] > 0
    assert learner.parameters_of(learner.select("head")) == ["model.embed_tokens.weight"]  # tied: one tensor
    drawn, again = learner.redraw(), same.redraw()
    assert drawn.keys() == dict(model.named_parameters()).keys()
    weight = drawn["model.layers.0.mlp.up_proj.weight"]
    assert float(weight.std()) == pytest.approx(0.02, rel=0.2)
    assert torch.equal(weight, again["model.layers.0.mlp.up_proj.weight"])
    attention = [p for n, p in model.named_parameters() if "self_attn" in n]
    assert float(hessian_eigenvalues(learner.loss, attention, k=1)[0]) > 0
    assert set(make("fire", scope=("query", "key")).apply(learner)) == {
        f"model.layers.{i}.self_attn.{part}_proj.weight" for i in range(2) for part in "qk"
    }
    assert "not traced" in refusal(make("redo").attach, learner)


def test_a_model_without_linear_layers_is_refused_by_name() -> None:
    assert "Embedding has no Linear layers" in refusal(causal_layers, torch.nn.Embedding(3, 2))
