import copy

import pytest
import torch
from torch import nn
from transformers import CLIPConfig, CLIPModel

from supple.tracks.language import wrap_moram
from supple.tracks.language.adapters import adapters, add_task, unwrap
from supple.tracks.vision.networks.vit import ViT
from tests.tracks.language.adapters.models import llama

pytestmark = pytest.mark.slow


def clip() -> CLIPModel:
    torch.manual_seed(0)
    shared = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {**shared, "vocab_size": 20, "max_position_embeddings": 8, "bos_token_id": 1, "eos_token_id": 2}
    vision = {**shared, "image_size": 8, "patch_size": 4}
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)).eval()


def tiny_vit() -> ViT:
    torch.manual_seed(0)
    return ViT((1, 8, 8), 3, width=12, depth=2, heads=2).eval()


def runs(model: nn.Module) -> torch.Tensor:
    tokens = torch.arange(12).view(2, 6)
    if isinstance(model, CLIPModel):
        return model(input_ids=tokens, pixel_values=torch.ones(2, 3, 8, 8)).logits_per_image
    return model(torch.ones(2, 1, 8, 8)) if isinstance(model, ViT) else model(tokens).logits


MODELS = [(llama, ["q_proj", "v_proj"], 4), (clip, ["q_proj", "fc1"], 4), (tiny_vit, r".*to_[qkv]", 6)]


@pytest.mark.parametrize(("build", "targets", "count"), MODELS)
def test_adapters_learn_in_models_whose_other_weights_stay(build, targets, count):
    model = build()
    before = runs(model).detach()
    assert len(wrap_moram(model, targets, r=4, k=3)) == len(adapters(model)) == count
    add_task(model, torch.Generator().manual_seed(0))
    assert torch.equal(runs(model), before)
    rest = {n: p.clone() for n, p in model.named_parameters() if not p.requires_grad}
    for _ in range(2):  # the values first, then the keys
        trained = [p for p in model.parameters() if p.requires_grad]
        assert len(trained) == 2 * count
        runs(model).square().sum().backward()
        assert all(p.grad is not None for p in trained)
        torch.optim.SGD(trained, lr=0.1).step()
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
    assert len(wrapped("all-linear")) == 14  # all but the head
    assert wrapped(["lm_head"]) == ["lm_head"]
    assert "head" not in wrap_moram(tiny_vit(), "all-linear")
    assert "text_projection" in wrap_moram(clip(), "all-linear")


def test_layers_draw_different_keys_and_the_same_for_the_same_seed_and_copies_stand_alone():
    model = llama()
    wrap_moram(model, ["q_proj"], r=2)
    other = copy.deepcopy(model)
    for each in (model, other):
        add_task(each, torch.Generator().manual_seed(7))
    keys, again = ([a.A for a in adapters(each).values()] for each in (model, other))
    assert not torch.equal(keys[0], keys[1])
    assert all(map(torch.equal, keys, again))
    assert {a.sizes for a in adapters(model).values()} == {(2,)}


def test_a_layer_whose_weight_is_computed_is_adapted():
    model = nn.Sequential(torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)))
    before = model(torch.ones(1, 4))
    assert wrap_moram(model, ["0"], r=2, k=1) == ["0"]
    torch.testing.assert_close(model(torch.ones(1, 4)), before)
