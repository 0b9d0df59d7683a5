"""GPT: the same function as transformers' GPT-2, and what interventions and metrics may rely on."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from supple.interventions import Learner, make
from supple.interventions.sib import sib_
from supple.metrics import dfi, dfi_unscaled, measure
from supple.tracks.language.gpt import GPT, GPTConfig, gpt_learner, make_adamw

pytestmark = pytest.mark.slow

TINY = GPTConfig(vocab_size=23, block_size=12, layers=2, heads=2, width=16)


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tokens(rows: int = 3, length: int = 8, seed: int = 1) -> Tensor:
    return torch.randint(TINY.vocab_size, (rows, length), generator=draws(seed))


def a_learner(config: GPTConfig = TINY, seed: int = 0) -> Learner:
    model = GPT(config, draws(seed))
    x, y = tokens(), tokens(seed=2)
    return gpt_learner(
        model,
        make_adamw(model, 1e-3),
        probe=lambda: (x,),
        loss=lambda: model(x, y),
        generator=draws(seed + 1),
        batches=lambda count: iter([model.losses(x, y)]),
    )


def train(learner: Learner, updates: int = 2) -> None:
    for _ in range(updates):
        learner.optimizer.zero_grad()
        learner.loss().backward()
        learner.optimizer.step()


def test_with_the_same_weights_it_is_the_gpt_2_of_transformers():
    from transformers import GPT2Config, GPT2LMHeadModel

    ours = GPT(TINY, draws())
    for p in ours.parameters():  # no value by which a missing gain would go unseen
        p.data.normal_(0.0, 0.3, generator=draws(p.numel()))
    settings = GPT2Config(
        vocab_size=23, n_positions=12, n_embd=16, n_layer=2, n_head=2, activation_function="gelu",
        attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0, attn_implementation="eager", bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    theirs = GPT2LMHeadModel(settings)
    state = {
        f"transformer.{name}": value.mT if name.startswith("h.") and value.ndim == 2 else value
        for name, value in ours.state_dict().items()
        if name != "lm_head.weight"
    }
    missing = theirs.load_state_dict({**state, "lm_head.weight": ours.lm_head.weight}, strict=False).missing_keys
    assert all(name.endswith("bias") for name in missing)  # those are 0
    x = tokens(length=12)
    y = x.clone()
    y[0, :4] = -100
    expected = theirs(input_ids=x, labels=y)
    torch.testing.assert_close(ours(x), expected.logits, rtol=1e-5, atol=1e-5)
    loss = ours(x[:, :-1], y[:, 1:])
    torch.testing.assert_close(loss, expected.loss, rtol=1e-5, atol=1e-5)


def test_weights_come_from_the_generator_with_gpt_2s_deviations():
    before = torch.get_rng_state()
    config = GPTConfig(vocab_size=500, block_size=64, layers=8, heads=2, width=64)
    a, b, other = (GPT(config, draws(seed)) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    for name, p in a.named_parameters():
        assert torch.equal(p, b.get_parameter(name))
        assert p.ndim == 1 or not torch.equal(p, other.get_parameter(name))
        if p.ndim == 2:
            expected = 0.02 / math.sqrt(16) if "c_proj" in name else 0.02
            assert float(p.detach().std()) == pytest.approx(expected, rel=0.06)
    assert a.lm_head.weight is a.wte.weight


def test_the_loss_of_a_sequence_is_the_mean_over_its_targets_that_count():
    model, x, y = GPT(TINY, draws()), tokens(), tokens(seed=2)
    y[0, 2:] = -100
    rows = [model(x[i : i + 1], y[i : i + 1]) for i in range(3)]
    torch.testing.assert_close(model.losses(x, y), torch.stack(rows))


def test_the_default_is_the_124m_configuration():
    model = GPT(replace(GPTConfig(), layers=1), draws())  # the other eleven blocks are like this one
    block, total = (sum(p.numel() for p in part.parameters()) for part in (model.h[0], model))
    assert total + 11 * block == 124_373_760  # 50,304 tokens and no biases


def test_only_matrices_and_embeddings_decay():
    model = GPT(TINY, draws())
    decaying, others = make_adamw(model, 3e-4, 0.1).param_groups
    names = {p: name for name, p in model.named_parameters()}
    assert (decaying["weight_decay"], others["weight_decay"]) == (0.1, 0.0)
    assert {names[p] for p in others["params"]} == {n for n in names.values() if "ln_" in n}
    assert len(decaying["params"]) + len(others["params"]) == len(names)


def test_fire_and_the_deviation_from_isometry_take_query_key_and_value_apart():
    learner = a_learner()
    assert make("fire", scope="qkv").apply(learner) == ["h.0.attn.c_attn.weight", "h.1.attn.c_attn.weight"]
    train(learner)
    named = {name: p.detach() for name, p in learner.module.named_parameters() if p.ndim == 2 and name != "wpe.weight"}
    matrices = [m for name, p in named.items() for m in (p.chunk(3) if "c_attn" in name else [p])]
    measured = measure(learner)
    assert measured["dfi"] == pytest.approx(sum(dfi(m) for m in matrices), rel=1e-9)
    unscaled = sum(dfi_unscaled(m, per_dimension=False) for m in matrices) / sum(min(m.shape) for m in matrices)
    assert measured["dfi_unscaled"] == pytest.approx(unscaled, rel=1e-9)
    assert sorted(make("fire", method="polar").apply(learner)) == sorted(named)  # no positions, no normalisations
    assert measure(learner)["dfi_unscaled"] < 1e-9


def test_a_fresh_draw_is_a_new_network_from_the_learners_generator():
    learner, same, state = a_learner(), a_learner(), torch.get_rng_state()
    for each in (learner, same):
        make("reset", toward="fresh").apply(each)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(map(torch.equal, learner.module.parameters(), same.module.parameters()))
    assert not torch.equal(learner.module.wte.weight, learner.initial["wte.weight"])


def test_balancing_values_and_output_projections_changes_no_logit():
    learner = a_learner()
    train(learner)
    logits, before = learner.module(tokens()).detach(), copy.deepcopy(learner.module.h)
    sib_(learner.module, learner.loss)
    torch.testing.assert_close(learner.module(tokens()).detach(), logits, rtol=1e-4, atol=1e-5)
    learner.optimizer.zero_grad()
    learner.loss().backward()
    for block, old in zip(learner.module.h, before, strict=True):
        qkv, out = block.attn.c_attn, block.attn.c_proj
        assert torch.equal(qkv.weight[:32], old.attn.c_attn.weight[:32])  # queries and keys
        assert not torch.equal(qkv.weight[32:], old.attn.c_attn.weight[32:])
        rows = qkv.weight.grad[32:].norm(dim=1)
        torch.testing.assert_close(rows, out.weight.grad.norm(dim=0), rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("name", ["crelu", "swiglu", "smooth_leaky(alpha=0.3)"])
def test_any_activation_of_the_registry_fits(name: str):
    learner = a_learner(replace(TINY, activation=name))
    train(learner)
    assert learner.loss().isfinite()
