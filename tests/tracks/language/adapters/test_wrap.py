import copy

import pytest
import torch
from torch import nn
from transformers import CLIPConfig, CLIPModel, LlamaConfig, LlamaForCausalLM

from supple.tracks.language import MoRAM, wrap_moram
from supple.tracks.language.adapters import adapters, add_task, unwrap
from supple.tracks.vision.networks.vit import ViT

pytestmark = pytest.mark.slow


def llama(tied: bool = False) -> LlamaForCausalLM:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "vocab_size": 20}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, tie_word_embeddings=tied)).eval()


def clip() -> CLIPModel:
    torch.manual_seed(0)
    shared = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {**shared, "vocab_size": 20, "max_position_embeddings": 8, "bos_token_id": 1, "eos_token_id": 2}
    vision = {**shared, "image_size": 8, "patch_size": 4}
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)).eval()


def tiny_vit() -> ViT:
    torch.manual_seed(0)
    return ViT((1, 8, 8), 3, width=12, depth=2, heads=2).eval()


def tokens() -> torch.Tensor:
    return torch.arange(12).view(2, 6)


def runs(model: nn.Module) -> torch.Tensor:
    if isinstance(model, CLIPModel):
        return model(input_ids=tokens(), pixel_values=torch.ones(2, 3, 8, 8)).logits_per_image
    return model(torch.ones(2, 1, 8, 8)) if isinstance(model, ViT) else model(tokens()).logits


MODELS = [(llama, ["q_proj", "v_proj"], 4), (clip, ["q_proj", "fc1"], 4), (tiny_vit, r".*to_[qkv]", 6)]


@pytest.mark.parametrize(("build", "targets", "count"), MODELS)
def test_adapters_learn_in_models_whose_other_weights_stay(build, targets, count):
    model = build()
    before = runs(model).detach()
    names = wrap_moram(model, targets, r=4, k=3)
    assert len(names) == len(adapters(model)) == count
    assert torch.equal(runs(model), before)
    add_task(model, torch.Generator().manual_seed(0))
    assert torch.equal(runs(model), before)
    rest = {n: p.clone() for n, p in model.named_parameters() if not p.requires_grad}
    model.train()
    for _ in range(2):  # the values first, then the keys
        trained = [p for p in model.parameters() if p.requires_grad]
        assert len(trained) == 2 * count
        runs(model).square().sum().backward()
        assert all(p.grad is not None for p in trained)
        torch.optim.SGD(trained, lr=0.1).step()
    model.eval()
    assert not torch.allclose(runs(model), before)
    assert all(torch.equal(p, rest[n]) for n, p in model.named_parameters() if n in rest)
    unwrap(model)
    assert not adapters(model)
    assert torch.equal(runs(model), before)


def test_names_follow_pefts_rule():
    def wrapped(targets):
        return wrap_moram(llama(), targets)

    assert wrapped(["k_proj"]) == [f"model.layers.{i}.self_attn.k_proj" for i in range(2)]
    assert wrapped(["layers.1.self_attn.k_proj"]) == ["model.layers.1.self_attn.k_proj"]
    assert wrapped(r"model\.layers\.0\..*(up|down)_proj") == [f"model.layers.0.mlp.{n}_proj" for n in ("up", "down")]
    assert len(wrapped("all-linear")) == 14
    assert "lm_head" not in wrapped("all-linear")
    assert wrap_moram(llama(), ["lm_head"]) == ["lm_head"]
    assert "head" not in wrap_moram(tiny_vit(), "all-linear")
    assert "text_projection" in wrap_moram(clip(), "all-linear")


def test_a_wrapped_layer_still_looks_like_a_linear():
    linear = nn.Linear(3, 2)
    made = MoRAM(linear)
    assert (made.in_features, made.out_features) == (3, 2)
    assert made.weight is linear.weight
    assert made.bias is linear.bias


def test_layers_draw_different_keys_and_the_same_for_the_same_seed():
    first, second = llama(), llama()
    for model in (first, second):
        wrap_moram(model, ["q_proj"], r=2)
        add_task(model, torch.Generator().manual_seed(7))
    keys = [a.A for a in adapters(first).values()]
    assert not torch.equal(keys[0], keys[1])
    assert all(torch.equal(a, b.A) for a, b in zip(keys, adapters(second).values(), strict=True))


def test_a_copy_of_a_wrapped_model_stands_alone():
    model = tiny_vit()
    wrap_moram(model, "all-linear", r=2)
    other = copy.deepcopy(model)
    add_task(other)
    assert {a.sizes for a in adapters(model).values()} == {()}
    assert {a.sizes for a in adapters(other).values()} == {(2,)}
