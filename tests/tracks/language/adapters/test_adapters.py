import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn

from supple.interventions import rebalance_
from supple.metrics import lambda_residual
from supple.tracks.language.adapters import (
    Adapter,
    ExternalRouter,
    IncLoRA,
    MoELoRA,
    OLoRA,
    SeqLoRA,
    add_task,
    maker,
    merge,
    penalty,
    wrap,
)

pytestmark = pytest.mark.slow


def linear(inputs: int = 6, outputs: int = 5) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(inputs, outputs).double()


def after(made: Adapter, tasks: int = 3) -> Adapter:
    source = torch.Generator().manual_seed(1)
    for _ in range(tasks):
        made.add_task(source)
        nn.init.normal_(made.B, generator=source)
    return made


def inputs() -> Tensor:
    return torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


@pytest.mark.parametrize("alpha", [None, 4.0, 32.0])
def test_lora_is_pefts(alpha):
    ours = SeqLoRA(nn.Linear(6, 5), r=8, alpha=alpha).double()
    ours.add_task()
    ours.double()
    nn.init.normal_(ours.B)
    model = nn.Sequential(nn.Linear(6, 5))
    model[0].load_state_dict(ours.linear.state_dict())
    peer = get_peft_model(model, LoraConfig(r=8, lora_alpha=8 if alpha is None else alpha, target_modules=["0"]))
    peer.double()
    with torch.no_grad():
        peer.base_model.model[0].lora_A["default"].weight.copy_(ours.A)
        peer.base_model.model[0].lora_B["default"].weight.copy_(ours.B.T)
    x = inputs()
    torch.testing.assert_close(ours(x), peer(x))
    ours(x).square().sum().backward()
    peer(x).square().sum().backward()
    torch.testing.assert_close(ours.A.grad, peer.base_model.model[0].lora_A["default"].weight.grad)
    torch.testing.assert_close(ours.B.grad.T, peer.base_model.model[0].lora_B["default"].weight.grad)


def test_the_weights_of_pefts_lora_can_be_rebalanced():
    model = get_peft_model(nn.Sequential(nn.Linear(12, 10)), LoraConfig(r=3, lora_alpha=6, target_modules=["0"]))
    a, b = (getattr(model.base_model.model[0], side)["default"] for side in ("lora_A", "lora_B"))
    nn.init.normal_(b.weight, std=0.3)
    x = torch.randn(20, 12)
    before = model(x)
    rebalance_(a, b, 1.0)
    torch.testing.assert_close(model(x), before, rtol=0, atol=2e-6)
    assert lambda_residual(a, b, 1.0) < 1e-5


def test_inclora_is_the_sum_of_all_tasks():
    made = IncLoRA(linear(), r=2, alpha=6.0)
    after(made)
    x, expected = inputs(), made.linear(inputs())
    for a, b in zip(made.bank("A").split(2), made.bank("B").split(2), strict=True):
        expected = expected + 3.0 * (x @ a.T @ b)
    torch.testing.assert_close(made(x), expected)
    assert made.sizes == (2, 2, 2)
    assert [p.shape for p in made.task_parameters()] == [(2, 6), (2, 5)]


@pytest.mark.parametrize("cls", [SeqLoRA, IncLoRA, OLoRA])
def test_a_merged_lora_computes_the_same_without_it(cls):
    model = nn.Sequential(linear(), nn.Tanh(), linear(5, 3))
    wrap(model, ["0"], lambda module: cls(module, r=2, alpha=5.0))
    after(model[0])
    before = model(inputs())
    merge(model)
    assert type(model[0]) is nn.Linear
    torch.testing.assert_close(model(inputs()), before)


def shares(logits, k):
    """A softmax over the k largest."""
    if k:
        logits = logits.masked_fill(logits < logits.topk(k, -1).values[..., -1:], float("-inf"))
    return logits.softmax(-1)


@pytest.mark.parametrize("k", [None, 2])
def test_moe_lora_mixes_whole_adapters_by_its_router(k):
    made = MoELoRA(linear(), r=2, k=k)
    after(made)
    x, expected = inputs(), made.linear(inputs())
    share = shares(x @ made.bank("router").T, k)
    for t, (a, b) in enumerate(zip(made.bank("A").split(2), made.bank("B").split(2), strict=True)):
        expected = expected + share[..., t : t + 1] * (x @ a.T @ b)
    torch.testing.assert_close(made(x), expected)
    assert [p.shape for p in made.task_parameters()] == [(2, 6), (2, 5), (1, 6)]


@pytest.mark.parametrize("k", [None, 3])
def test_the_external_router_mixes_single_atoms(k):
    made = ExternalRouter(linear(), r=2, k=k)
    after(made)
    x, expected = inputs(), made.linear(inputs())
    share = shares(x @ made.bank("router").T, k)
    for i, (a, b) in enumerate(zip(made.bank("A"), made.bank("B"), strict=True)):
        expected = expected + share[..., i : i + 1] * (x @ a).unsqueeze(-1) * b
    torch.testing.assert_close(made(x), expected)
    assert [p.shape for p in made.task_parameters()] == [(2, 6), (2, 5), (2, 6)]


def test_the_penalty_of_olora_is_the_squared_overlap_of_new_and_old_keys():
    made = OLoRA(linear(), r=2, strength=0.7)
    made.add_task()
    assert made.penalty() == 0
    after(made, 2)
    old, new = made.frozen_A, made.A.detach()
    expected = 0.7 * sum(float(a @ b) ** 2 for a in old for b in new)
    assert made.penalty().item() == pytest.approx(expected)
    (gradient,) = torch.autograd.grad(made.penalty(), made.A)
    torch.testing.assert_close(gradient, 1.4 * new @ old.T @ old)


def test_a_models_penalty_is_the_sum_of_its_layers():
    model = nn.Sequential(linear(), linear(5, 3))
    wrap(model, ["0", "1"], maker("olora", r=2))
    add_task(model), add_task(model)
    torch.testing.assert_close(penalty(model), model[0].penalty() + model[1].penalty())
    assert penalty(model) > 0
