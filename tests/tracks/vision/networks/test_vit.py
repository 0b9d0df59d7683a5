"""The vision transformer, and FIRE's scope on it."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from supple.interventions import FireScope, Learner, learner_for, make, parse_hook, unit_names
from supple.tracks.vision.networks.vit import SelfAttention, ViT


def tiny() -> ViT:
    torch.manual_seed(0)
    return ViT((3, 16, 16), 5, width=12, depth=2)


def learner() -> Learner:
    module = tiny()
    made = learner_for(module, layers=module.layers(), units=unit_names(module))
    made.offer(FireScope(module.fire_scope))
    return made


def written(text: str) -> set[str]:
    target, hook = learner(), parse_hook(f"{text}@task")
    assert hook is not None
    hook.intervention.attach(target)
    return set(hook.intervention.apply(target))


def weights(*layers: str) -> set[str]:
    return {f"blocks.{block}.{layer}.weight" for block in (0, 1) for layer in layers}


def test_attention_is_the_softmax_average_of_each_head() -> None:
    torch.manual_seed(0)
    attention, x = SelfAttention(6, heads=2), torch.randn(3, 5, 6)
    q, k, v = attention.to_q(x), attention.to_k(x), attention.to_v(x)
    mixed = torch.zeros(3, 5, 6)
    for image in range(3):
        for head in (slice(0, 3), slice(3, 6)):
            scores = q[image, :, head] @ k[image, :, head].T / math.sqrt(3)
            mixed[image, :, head] = scores.softmax(-1) @ v[image, :, head]
    assert_close(attention(x), attention.to_out(mixed))


def shuffle_patches(images: Tensor) -> Tensor:
    """The same patches of 4 × 4 in another order."""
    patches = images.unfold(2, 4, 4).unfold(3, 4, 4).flatten(2, 3)  # (n, channels, patches, 4, 4)
    patches = patches[:, :, torch.randperm(16, generator=torch.Generator().manual_seed(0))]
    return patches.unflatten(2, (4, 4)).transpose(3, 4).flatten(4, 5).flatten(2, 3)


def test_only_positions_tell_one_order_of_patches_from_another() -> None:
    module, images = tiny(), torch.randn(2, 3, 16, 16)
    assert not torch.allclose(module(shuffle_patches(images)), module(images), atol=1e-5)
    nn.init.zeros_(module.embedding.positions)
    assert_close(module(shuffle_patches(images)), module(images), rtol=1e-4, atol=1e-5)
    nn.init.ones_(module.embedding.class_token)
    assert bool((module.embedding(images)[:, 0] == 1).all()), "the class token comes first"


@pytest.mark.slow
def test_fire_takes_query_and_key_as_the_paper_does_unless_a_scope_names_other_parts() -> None:
    assert written("fire") == weights("attention.to_q", "attention.to_k")
    assert make("fire").contract(learner())["weights"] == "query + key"
    assert written("fire(scope=mlp)") == weights("wide", "narrow")
    assert written("fire(scope=[value,out])") == weights("attention.to_v", "attention.to_out")
    assert len(written("fire(scope=all)")) == len(learner().layers)
    depths = {layer.name: layer.depth for layer in learner().layers}
    assert len({depths[f"blocks.0.attention.to_{part}"] for part in "qkv"}) == 1, "they lie side by side"
