import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from supple.tracks.language.adapters import SeqLoRA, merge, penalty
from tests.tracks.language.adapters.models import adapted, inputs

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("alpha", [None, 4.0])
def test_lora_is_pefts(alpha):
    ours = SeqLoRA(nn.Linear(6, 5), r=8, alpha=alpha)
    ours.add_task()
    nn.init.normal_(ours.B)
    model = nn.Sequential(nn.Linear(6, 5))
    model[0].load_state_dict(ours.linear.state_dict())
    peer = get_peft_model(model, LoraConfig(r=8, lora_alpha=alpha or 8, target_modules=["0"])).double()
    a, b = (getattr(peer.base_model.model[0], side)["default"].weight for side in ("lora_A", "lora_B"))
    a.data, b.data = ours.double().A.detach().clone(), ours.B.detach().T.clone()
    outputs = [each(inputs(8)) for each in (ours, peer)]
    torch.testing.assert_close(*outputs)
    for output in outputs:
        output.square().sum().backward()
    torch.testing.assert_close((ours.A.grad, ours.B.grad.T), (a.grad, b.grad))


def shares(logits, k):
    """A softmax over the k largest."""
    if k:
        logits = logits.masked_fill(logits < logits.topk(k, -1).values[..., -1:], float("-inf"))
    return logits.softmax(-1)


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("inclora", {"alpha": 6.0}),
        *[("moe_lora", {"k": k}) for k in (None, 2)],  # of whole adapters
        *[("external_router", {"k": k}) for k in (None, 3)],  # of single atoms
    ],
)
def test_the_atoms_of_all_tasks_are_summed_with_the_weights_of_their_kind(kind, params):
    made, x = adapted(kind, r=2, **params)[0], inputs(2, 4)
    if kind == "inclora":
        weights = x.new_full((2, 4, 6), 3.0)
    else:
        weights = shares(x @ made.bank("router").T, params["k"])
        weights = weights.repeat_interleave(2, -1) if kind == "moe_lora" else weights
    atoms = torch.einsum("...i,...i,io->...o", weights, x @ made.bank("A").T, made.bank("B"))
    torch.testing.assert_close(made(x), made.linear(x) + atoms)
    assert made.sizes == (2, 2, 2)
    router = {"moe_lora": [(1, 6)], "external_router": [(2, 6)]}.get(kind, [])
    assert [p.shape for p in made.parameters() if p.requires_grad] == [(2, 6), (2, 8), *router]


@pytest.mark.parametrize("kind", ["seqlora", "inclora", "olora"])
def test_a_merged_lora_computes_the_same_without_it(kind):
    model = adapted(kind, alpha=5.0)
    before = model(inputs(5))
    merge(model)
    assert type(model[0]) is nn.Linear
    torch.testing.assert_close(model(inputs(5)), before)


def test_the_penalty_of_olora_is_the_squared_overlap_of_new_and_old_keys_in_all_layers():
    assert penalty(adapted("olora", tasks=1)) == 0
    model, expected = adapted("olora", strength=0.7), 0.0
    for layer in (model[0], model[2]):
        expected += 0.7 * sum(float(a @ b) ** 2 for a in layer.frozen_A for b in layer.A.detach())
    assert penalty(model).item() == pytest.approx(expected)
    (gradient,) = torch.autograd.grad(penalty(model), model[0].A)
    torch.testing.assert_close(gradient, 1.4 * model[0].A @ model[0].frozen_A.T @ model[0].frozen_A)
