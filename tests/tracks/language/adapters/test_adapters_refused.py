"""What adapters refuse, each in one line, with the model as it was."""

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from supple.interventions import StackedLinear
from supple.tracks.language import MoRAM, wrap_moram
from supple.tracks.language.adapters import (
    activation_maps,
    activation_mass,
    adapters,
    maker,
    merge,
    prune,
    save_adapters,
    unwrap,
    wrap,
)
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow


def llama(tied: bool = False) -> LlamaForCausalLM:
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "vocab_size": 20}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, tie_word_embeddings=tied))


def gpt2() -> GPT2LMHeadModel:
    return GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=12, bos_token_id=1, eos_token_id=1))


def twice() -> nn.Sequential:
    shared = nn.Linear(3, 3)
    return nn.Sequential(shared, nn.ReLU(), shared)


def stacked() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), StackedLinear(2, 4, 4))


def encoder() -> nn.Sequential:
    return nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16), nn.Linear(8, 2))


def adapted(*kinds: str) -> nn.Sequential:
    """One layer for each kind of adapter."""
    model = nn.Sequential(*(nn.Linear(3, 3) for _ in kinds))
    for i, kind in enumerate(kinds):
        model[i] = maker(kind)(model[i])
    return model


@pytest.mark.parametrize(
    ("model", "targets", "words"),
    [
        (llama, ["q_prog"], "target 'q_prog' matches no nn.Linear of LlamaForCausalLM: did you mean 'q_proj'?"),
        (llama, ["q_proj", "query"], "target 'query' matches no nn.Linear"),
        (llama, "q_proj", "regular expression for the whole name, the list ['q_proj'] means its ending"),
        (llama, ["self_attn"], "'model.layers.0.self_attn' is LlamaAttention"),
        (llama, "(", "is no regular expression"),
        (partial(llama, tied=True), ["lm_head"], "'lm_head' shares its weight with model.embed_tokens.weight"),
        (twice, ["0"], "shares its weight"),
        (stacked, ["1"], "'1' is stacked"),
        (gpt2, ["c_attn"], "matches no nn.Linear: 'transformer.h.0.attn.c_attn' is Conv1D"),
        (partial(nn.Linear, 3, 3), ["weight"], "Linear has no nn.Linear inside it"),
        (encoder, ["linear1"], "reads its weight and never calls it"),
        (encoder, ["out_proj"], "reads its weight and never calls it"),
    ],
)
def test_a_target_without_a_linear_to_adapt_is_refused(
    model: Callable[[], nn.Module], targets: str | list[str], words: str
) -> None:
    made = model()
    assert words in refusal(wrap_moram, made, targets)
    assert not adapters(made)
    assert all(p.requires_grad for p in made.parameters())


CALLS: list[tuple[Callable[[], object], str]] = [
    (lambda: maker("lora"), "unknown adapter 'lora'"),
    (lambda: maker("seqlora", rank=3), "seqlora has no parameter 'rank'"),
    (lambda: maker("seqlora", alpha="8"), "seqlora: alpha should be"),
    (lambda: maker("inclora", alpha=0.0)(nn.Linear(3, 3)), "IncLoRA: alpha must lie in"),
    (lambda: maker("olora", strength=-1.0)(nn.Linear(3, 3)), "OLoRA: strength must lie in"),
    (lambda: maker("moe_lora", k=0)(nn.Linear(3, 3)), "MoELoRA: k must lie in"),
    (lambda: MoRAM(nn.Linear(3, 3), r=0), "MoRAM: r must lie in"),
    (lambda: MoRAM(nn.Linear(3, 3), k=0), "MoRAM: k must lie in"),
    (lambda: MoRAM(nn.Linear(3, 3), tau=0.0), "MoRAM: tau must lie in"),
    (lambda: MoRAM(nn.Linear(3, 3), delta=1.5), "MoRAM: delta must lie in"),
    (lambda: MoRAM(nn.Conv2d(3, 3, 1)), "MoRAM adapts an nn.Linear, not Conv2d"),
    (lambda: MoRAM(nn.Linear(3, 3)).merge(), "MoRAM cannot be merged into the weight: which atoms act"),
    (lambda: unwrap(llama()), "LlamaForCausalLM has no adapters"),
    (lambda: wrap(adapted("inclora"), ["0"], maker("moram")), "Sequential has adapters already"),
    (lambda: prune(adapted("moram"), {}, 0.0), "keep must lie in"),
    (lambda: activation_mass(adapted("inclora")).__enter__(), "'0' is IncLoRA"),
    (lambda: activation_mass(adapted("moram")).__enter__(), "'0' has no atoms yet"),
    (lambda: activation_maps(nn.Linear(2, 2), list), "Linear has no adapters"),
    (lambda: save_adapters(nn.Sequential(), Path("none")), "Sequential has no adapters to save"),
    (lambda: save_adapters(adapted("moram", "seqlora"), Path("none")), "adapters of different kinds"),
]


@pytest.mark.parametrize(("call", "words"), CALLS)
def test_kinds_numbers_and_models_that_do_not_fit_are_refused(call: Callable[[], object], words: str) -> None:
    assert words in refusal(call)


def test_merging_a_mixture_is_refused_before_anything_changes() -> None:
    model = adapted("inclora", "moe_lora")
    for adapter in adapters(model).values():
        adapter.add_task()
        nn.init.normal_(adapter.B)
    before = copy.deepcopy(model.state_dict())
    assert "MoELoRA cannot be merged into the weight: the router" in refusal(merge, model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items() if value.numel())
    assert len(adapters(model)) == 2
