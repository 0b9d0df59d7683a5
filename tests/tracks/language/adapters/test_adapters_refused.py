"""What adapters refuse, each in one line, with the model as it was."""

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from supple.interventions import StackedLinear
from supple.tracks.language import MoRAM, wrap_moram
from supple.tracks.language.adapters import activation_mass, adapters, maker, merge, save_adapters, wrap
from tests.tracks.language.adapters.models import adapted, llama, plain
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow


def gpt2() -> GPT2LMHeadModel:
    return GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=12, bos_token_id=1, eos_token_id=1))


@pytest.mark.parametrize(
    ("model", "targets", "words"),
    [
        (llama, ["q_prog"], "target 'q_prog' matches no nn.Linear of LlamaForCausalLM: did you mean 'q_proj'?"),
        (llama, "q_proj", "regular expression for the whole name, the list ['q_proj'] means its ending"),
        (llama, ["q_proj", "self_attn"], "'model.layers.0.self_attn' is LlamaAttention"),
        (partial(llama, tied=True), ["lm_head"], "'lm_head' shares its weight with model.embed_tokens.weight"),
        (lambda: nn.Sequential(StackedLinear(2, 4, 4), nn.Linear(4, 4)), ["0"], "'0' is StackedLinear"),
        (gpt2, ["c_attn"], "matches no nn.Linear: 'transformer.h.0.attn.c_attn' is Conv1D"),
        (partial(nn.Linear, 3, 3), ["weight"], "Linear has no nn.Linear inside it"),
        (
            lambda: nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16)),
            ["out_proj"],
            "reads its weight and never calls it",
        ),
    ],
)
def test_a_target_without_a_linear_to_adapt_is_refused(
    model: Callable[[], nn.Module], targets: str | list[str], words: str
) -> None:
    made = model()
    assert words in refusal(wrap_moram, made, targets)
    assert not adapters(made)
    assert all(p.requires_grad for p in made.parameters())


def mixed() -> nn.Sequential:
    """One layer with IncLoRA, and one with a mixture of them."""
    model = adapted("inclora")
    model[2] = adapted("moe_lora")[2]
    return model


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: maker("lora"), "unknown adapter 'lora'"),
        (lambda: maker("seqlora", rank=3), "seqlora has no parameter 'rank'"),
        (lambda: MoRAM(nn.Linear(3, 3), delta=1.5), "MoRAM: delta must lie in"),
        (lambda: wrap(adapted("inclora"), ["0"], maker("moram")), "Sequential has adapters already"),
        (lambda: activation_mass(mixed()).__enter__(), "'0' is IncLoRA"),
        (lambda: activation_mass(adapted(tasks=0)).__enter__(), "'0' has no atoms yet"),
        (lambda: save_adapters(plain(), Path("none")), "Sequential has no adapters to save"),
        (lambda: save_adapters(mixed(), Path("none")), "adapters of different kinds"),
    ],
)
def test_kinds_numbers_and_models_that_do_not_fit_are_refused(call: Callable[[], object], words: str) -> None:
    assert words in refusal(call)


def test_merging_a_mixture_is_refused_before_anything_changes() -> None:
    model = mixed()
    before = copy.deepcopy(model.state_dict())
    assert "MoELoRA cannot be merged into the weight: the router" in refusal(merge, model)
    assert torch.equal(model[0].linear.weight, before["0.linear.weight"])
    assert len(adapters(model)) == 2
