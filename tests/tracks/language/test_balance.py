"""The report on a balanced language model: its entries, compared with direct computations."""

import copy
import json
from functools import partial
from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor, nn

from supple.metrics import hessian_eigenvalues
from supple.tracks.language.balance import balance, batch_loss, write_balance
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow


def tiny() -> nn.Module:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=23,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        attention_dropout=0.5,
        initializer_range=0.3,
    )
    return transformers.LlamaForCausalLM(config)


def batch(seed: int) -> dict[str, Tensor]:
    tokens = torch.randint(1, 23, (2, 9), generator=torch.Generator().manual_seed(seed))
    labels = tokens.masked_fill(torch.arange(9) < 4, -100)  # the loss is on the answer
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": labels}


def norm(model: nn.Module, of: dict[str, Tensor]) -> float:
    gradients = torch.autograd.grad(batch_loss(model, of), list(model.parameters()))
    return torch.cat([g.flatten() for g in gradients]).norm().item()


def test_the_report_compares_the_model_before_and_after_balancing(tmp_path: Path) -> None:
    model, batches = tiny().train(), [batch(1), batch(2)]
    was = copy.deepcopy(model).eval()
    report = balance(model, batches, ratio=20.0, eigenvalues=3, tolerance=1e-4)
    assert model.training
    sides = {"before": was, "after": model.eval()}
    assert (report["architecture"], report["pairs"], report["channels"]) == ("llama", 2, 2 * 4 + 16)

    old, new = ([net(b["input_ids"]).logits.detach() for b in batches] for net in sides.values())
    logits, norms, values, alpha = (report[key] for key in ("logits", "gradient_norm", "eigenvalues", "alpha"))
    difference = max(float((a - b).abs().max()) for a, b in zip(old, new, strict=True))
    assert logits["difference"] == pytest.approx(difference, rel=0.5, abs=1e-9)
    assert logits["kept"]
    for key, net in sides.items():
        assert norms[key] == pytest.approx([norm(net, b) for b in batches], rel=1e-4)
        found = hessian_eigenvalues(partial(batch_loss, net, batches[0]), net.parameters(), 3, tolerance=1e-4)
        assert values[key] == pytest.approx(found.tolist(), rel=2e-3)
    assert norms["ratio"][0] < 1
    assert norms["of_pairs"][1] < norms["of_pairs"][0]
    assert values["ratio"][0] == values["after"][0] / values["before"][0]
    assert sum(alpha["counts"]) == report["channels"]
    assert 1 / 20 <= alpha["smallest"] <= alpha["median"] <= alpha["largest"] <= 20 * (1 + 1e-6)

    paths = write_balance({"tiny llama": report, "again": report}, tmp_path / "out")
    assert [p.name for p in paths] == ["sib.json", "sib_eigenvalues.png", "sib_gradient_norms.png"]
    assert json.loads(paths[0].read_text())["again"] == report


def test_without_eigenvalues_there_is_one_figure(tmp_path: Path) -> None:
    report = balance(tiny(), [batch(1)], eigenvalues=0)
    assert report["eigenvalues"] is None
    assert [p.name for p in write_balance({"tiny": report}, tmp_path)] == ["sib.json", "sib_gradient_norms.png"]


def test_bad_ratios_and_models_are_refused_and_nothing_is_written() -> None:
    model, was = tiny(), tiny()
    assert "ratio must lie" in refusal(balance, model, [batch(1)], ratio=0.0)
    assert all(map(torch.equal, model.parameters(), was.parameters()))
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_embd=12, n_head=2))
    assert "gpt2" in refusal(balance, gpt2, [batch(1)])
