import sys
from pathlib import Path

import pytest
import torch
import transformers as hf

from supple.interventions import Learner, make
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


def learner_of(lm: LanguageModel) -> Learner:
    def loss() -> torch.Tensor:
        found: torch.Tensor = lm.model(TOKENS, labels=TOKENS).loss
        return found

    return causal_learner(
        lm.model, None, probe=lambda: (TOKENS,), loss=loss, generator=torch.Generator().manual_seed(0)
    )


def test_new_models_have_the_weights_of_their_seed_and_move_no_generator() -> None:
    before = torch.get_rng_state()
    one, again, other = (load_model("llama:32x2", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    weights = [lm.model.get_parameter("lm_head.weight") for lm in (one, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_saved_model_is_loaded_with_the_same_logits_and_tokens(tmp_path: Path) -> None:
    lm = tied()
    save_model(lm, tmp_path / "deep" / "model")
    save_model(lm, tmp_path / "deep" / "model")  # over the first
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["model"]
    back = load_model(str(tmp_path / "deep" / "model"))
    assert torch.equal(back.model(TOKENS).logits, lm.model(TOKENS).logits)
    assert back.model.lm_head.weight is back.model.model.embed_tokens.weight
    assert back.tokenizer("Hé<|end|>").input_ids == lm.tokenizer("Hé<|end|>").input_ids
    assert back.tokenizer.chat_template == lm.tokenizer.chat_template


def test_weights_are_float32_whatever_they_were_saved_as(tmp_path: Path) -> None:
    lm = tied()
    save_model(LanguageModel(lm.model.bfloat16(), lm.tokenizer, ""), tmp_path / "half")
    assert {p.dtype for p in load_model(str(tmp_path / "half")).model.parameters()} == {torch.float32}


def test_a_name_that_is_no_model_is_refused_without_asking_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*what: object) -> None:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(models, "read_from_hub", asked)
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    for name, words in (
        ("nothing", "no such model"),
        ("runs/model", "no such model"),  # a path, for its folder is here
        (str(tmp_path / "runs"), "no config.json"),
        ("model.gguf", "no such file"),
        ("smollm2", "supple fetch smollm2"),
        ("llama:33x1", "multiples of 32"),
        ("llama:big", "llama:WIDTHxLAYERS"),
    ):
        assert words in refusal(load_model, name)


def test_an_unavailable_hub_model_is_refused_with_a_hint_at_local_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def fails(*args: object, **settings: object) -> None:
        raise OSError("no network\nand more")

    monkeypatch.setattr(models, "_pretrained", fails)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", fails)
    assert "loaded from the hub (OSError: no network" in refusal(load_model, "some/model")


def test_the_hubs_own_cache_is_enough_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def fails(*args: object, **settings: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", fails)
    monkeypatch.setattr(hf.AutoConfig, "from_pretrained", lambda name, local_files_only: hf.CLIPConfig())
    assert models.model_type("some/clip") == "clip"
    assert models.model_type("llama:32x1") == models.model_type("nowhere") == ""


def test_a_damaged_folder_is_one_line_that_names_it(tmp_path: Path) -> None:
    save_model(tied(), tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"not weights")
    assert "model: not a causal language model that can be read" in refusal(load_model, str(tmp_path / "model"))


def test_a_folder_with_weights_missing_is_refused(tmp_path: Path) -> None:
    lm = tied()
    save_model(lm, tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text().replace('"num_hidden_layers": 2', '"num_hidden_layers": 3'))
    assert "9 weights are missing, such as model" in refusal(load_model, str(tmp_path / "model"))


def test_without_transformers_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert "pip install 'supple[language]'" in refusal(load_model, "llama:32x1")


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (hf.LlamaForCausalLM, hf.LlamaConfig),
        (hf.Qwen2ForCausalLM, hf.Qwen2Config),
        (hf.Gemma2ForCausalLM, hf.Gemma2Config),
    ],
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


def test_the_learner_supports_metrics_and_hooks() -> None:
    lm = tied()
    learner = learner_of(lm)
    assert learner.units == ("model.layers.0.mlp.act_fn", "model.layers.1.mlp.act_fn")
    assert learner.features == "model.norm"
    measured = measure(View(learner), True)
    assert measured["srank"] > 0
    names = learner.parameters_of(learner.select("head"))
    assert names == ["model.embed_tokens.weight"]  # tied: one tensor
    make("fire", scope=("query", "key")).apply(learner)
    assert not torch.equal(lm.model.model.layers[0].self_attn.q_proj.weight, learner.initial[
        "model.layers.0.self_attn.q_proj.weight"])  # fmt: skip
    assert "gated MLP" in refusal(make("redo").attach, learner)


def test_a_fresh_draw_is_the_initialisation_of_transformers_from_the_learners_generator() -> None:
    lm = tied()
    drawn = learner_of(lm).redraw()
    assert drawn.keys() == dict(lm.model.named_parameters()).keys()
    weight = drawn["model.layers.0.mlp.up_proj.weight"]
    assert float(weight.std()) == pytest.approx(0.02, rel=0.2)
    assert torch.equal(weight, learner_of(lm).redraw()["model.layers.0.mlp.up_proj.weight"])


def test_second_derivatives_pass_through_the_attention() -> None:
    lm = tied()
    learner = learner_of(lm)
    parameters = [p for n, p in lm.model.named_parameters() if "self_attn" in n]
    assert float(hessian_eigenvalues(learner.loss, parameters, k=1)[0]) > 0


def test_a_model_without_linear_layers_is_refused_by_name() -> None:
    assert "Embedding has no Linear layers" in refusal(causal_layers, torch.nn.Embedding(3, 2))
