"""Scale-invariant balancing on tiny random models of every family that transformers has."""

import math

import pytest
import torch
import transformers
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn

from supple.interventions import learner_for, make, scale_pairs, sib_, snapshot
from supple.networks.symmetry import FAMILIES
from tests.interventions.common import changed, refused

SIZE = {
    "vocab_size": 53,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,  # groups of 3
    "head_dim": 8,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
}
TOKENS = torch.randint(1, 53, (2, 12), generator=torch.Generator().manual_seed(0))


def tiny(family: str, **changes: object) -> nn.Module:
    """A model with weights large enough that attention matters, and biases that are not zero."""
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(family, **{**SIZE, **changes})
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or parameter.ndim == 2:
                parameter.normal_(std=0.25)
    return model


def loss_of(model: nn.Module) -> Tensor:
    return model(input_ids=TOKENS, labels=TOKENS).loss


@torch.no_grad()
def relative_difference(model: nn.Module, logits: Tensor) -> float:
    return float((model(TOKENS).logits - logits).abs().max() / logits.abs().max())


def gradient_norm(model: nn.Module) -> float:
    gradients = torch.autograd.grad(loss_of(model), list(model.parameters()))
    return math.sqrt(sum(float(g.square().sum()) for g in gradients))


def by_hand(model: nn.Module, ratio: float) -> None:
    """The equations, one channel of one query head after the other."""
    named = dict(model.named_parameters())
    gradients = dict(zip(named, torch.autograd.grad(loss_of(model), list(named.values())), strict=True))
    heads, groups, width = 2, 3, named["model.layers.0.self_attn.v_proj.weight"].shape[0] // 2

    def balance(div: str, mul: str, row: int, columns: list[int]) -> None:
        before = [f"{div}.{part}" for part in ("weight", "bias") if f"{div}.{part}" in named]
        squares = sum(gradients[name][row].square().sum() for name in before)
        other = gradients[f"{mul}.weight"][:, columns].square().sum()
        alpha = min(max(float((other / squares) ** 0.25), 1 / ratio), ratio)
        for name in before:
            named[name][row] /= alpha
        named[f"{mul}.weight"][:, columns] *= alpha

    with torch.no_grad():
        for layer in range(2):
            place = f"model.layers.{layer}"
            attention = f"{place}.self_attn"
            for head in range(heads):
                for channel in range(width):
                    readers = [(head * groups + query) * width + channel for query in range(groups)]
                    balance(f"{attention}.v_proj", f"{attention}.o_proj", head * width + channel, readers)
            for neuron in range(SIZE["intermediate_size"]):
                balance(f"{place}.mlp.up_proj", f"{place}.mlp.down_proj", neuron, [neuron])


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_stay_gradients_are_balanced_and_a_second_time_changes_nothing(family: str) -> None:
    model = tiny(family)
    pairs = scale_pairs(model)
    assert len(pairs) == 2 * SIZE["num_hidden_layers"]
    assert {pair.groups for pair in pairs} == {1, 3}
    logits, norm, before = model(TOKENS).logits.detach(), gradient_norm(model), snapshot(model)

    done = sib_(model, lambda: loss_of(model))

    assert relative_difference(model, logits) <= 1e-5
    assert gradient_norm(model) < norm
    assert done.predicted < done.gradient_norm
    written = changed(model, before)
    assert written == set(done.written)
    parts = {name.split(".", 3)[3] for name in written}
    assert {"self_attn.v_proj.weight", "self_attn.o_proj.weight", "mlp.up_proj.weight"} <= parts
    assert not any("gate" in part or "q_proj" in part or "o_proj.bias" in part for part in parts)

    assert all(p.grad is None for p in model.parameters())
    again = sib_(model, lambda: loss_of(model))
    torch.testing.assert_close(again.alpha, torch.ones_like(again.alpha), rtol=2e-3, atol=0)
    assert again.gradient_norm == pytest.approx(done.predicted, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "changes"), [("llama", {}), ("qwen2", {}), ("llama", {"attention_bias": True, "mlp_bias": True})]
)
@pytest.mark.parametrize("ratio", [100.0, 1.1])
def test_every_weight_is_as_in_the_equations(family, changes, ratio):
    """Biases of values and up are scaled with their rows."""
    model, expected = tiny(family, **changes), tiny(family, **changes)
    sib_(model, lambda: loss_of(model), ratio)
    by_hand(expected, ratio)
    torch.testing.assert_close(snapshot(model), snapshot(expected), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "tolerance"),
    [
        (lambda: tiny("llama", num_key_value_heads=1), 1e-5),
        (lambda: tiny("llama", num_key_value_heads=6), 1e-5),
        (lambda: tiny("llama").to(torch.bfloat16), 0.05),  # its rounding
        (lambda: get_peft_model(tiny("llama"), LoraConfig(r=2, target_modules=["q_proj"])), 1e-5),
    ],
    ids=["one key/value head", "as many as queries", "bfloat16", "LoRA on queries"],
)
def test_variants_keep_their_logits_and_frozen_weights_stay_frozen(build, tolerance):
    model = build()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lm_head" in name)
    logits = model(TOKENS).logits.detach()
    done = sib_(model, lambda: loss_of(model))
    assert (done.pairs, done.alpha.dtype, done.idle) == (4, torch.float32, 0)
    assert relative_difference(model, logits) <= tolerance
    assert {"lm_head" in n for n, p in model.named_parameters() if p.requires_grad} == {True}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "changes"), [("gpt2", {"n_head": 2, "n_embd": 16, "n_layer": 1}), ("olmo", {"clip_qkv": 8.0})]
)
def test_architectures_without_the_symmetry_are_refused_by_name(family: str, changes: dict) -> None:
    sizes = {} if family == "gpt2" else SIZE
    config = transformers.AutoConfig.for_model(family, **{**sizes, **changes})
    learner, sib = learner_for(transformers.AutoModelForCausalLM.from_config(config)), make("sib")
    assert not sib.concerns(learner) or family == "olmo"
    with refused(f"sib: 'model': {family} .* has no known scale symmetry"):
        sib.attach(learner)


def wrap(model: nn.Module) -> None:
    get_peft_model(model, LoraConfig(r=2, target_modules=["v_proj"]))


def tie(model: nn.Module) -> None:
    model.model.layers[1].mlp.up_proj.weight = model.model.layers[0].mlp.up_proj.weight


def quantise(model: nn.Module) -> None:
    down = model.model.layers[0].mlp.down_proj
    down.weight = nn.Parameter(down.weight.detach().to(torch.float8_e4m3fn), requires_grad=False)


def norm_output(model: nn.Module) -> None:
    nn.utils.parametrizations.weight_norm(model.model.layers[0].self_attn.o_proj)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            wrap,
            "layers.0.self_attn: its div layer is peft's Linear of torch.float32, not",
        ),
        (tie, "shared by model.layers.0.mlp.up_proj.weight and model.layers.1.mlp.up_proj.weight"),
        (quantise, "mul layer is torch's Linear of torch.float8_e4m3fn"),
        (norm_output, "ParametrizedLinear of torch.float32, not"),
        (lambda model: setattr(model.model.layers[0].self_attn, "head_dim", 5), "divided into heads of 5 channels"),
    ],
)
def test_wrapped_quantised_shared_and_normalised_layers_are_refused(change, reason):
    model = tiny("llama")
    change(model)
    with refused(reason):
        sib_(model, lambda: torch.zeros(()))
