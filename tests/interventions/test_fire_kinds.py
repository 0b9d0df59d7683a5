"""FIRE on every kind of layer: each matrix equals a singular value decomposition, or the weight is kept and named."""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from supple.interventions import Layer, fire_, learner_for, make, snapshot
from supple.metrics import measure
from tests.interventions.common import changed, refused


def by_svd(W: Tensor) -> Tensor:
    """Return √(d_out/d_in)·UVᵀ of a matrix (d_out, d_in)."""
    U, _, Vh = torch.linalg.svd(W.detach().double(), full_matrices=False)
    return (U @ Vh * math.sqrt(W.shape[0] / W.shape[1])).to(W.dtype)


def in_parts(parts: int) -> Callable[[Tensor], Tensor]:
    return lambda W: torch.cat([by_svd(part) for part in W.chunk(parts)])


class Conv1D(nn.Module):
    """A stand-in for the layer of transformers, which is recognised by its name and package."""

    def __init__(self, d_out: int, d_in: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_in, d_out))
        self.bias = nn.Parameter(torch.zeros(d_out))


Conv1D.__module__ = "transformers.pytorch_utils"

KINDS: list[tuple[Any, dict[str, Callable[[Tensor], Tensor]]]] = [
    (nn.RNN(3, 5), {"weight_ih_l0": by_svd, "weight_hh_l0": by_svd}),
    (
        nn.GRU(3, 5, num_layers=2, bidirectional=True),
        {f"weight_{k}_{end}": in_parts(3) for k in ("ih", "hh") for end in ("l0", "l1", "l0_reverse", "l1_reverse")},
    ),
    (nn.LSTM(3, 6, proj_size=2), {"weight_ih_l0": in_parts(4), "weight_hh_l0": in_parts(4), "weight_hr_l0": by_svd}),
    (nn.RNNCell(3, 5), {"weight_ih": by_svd, "weight_hh": by_svd}),
    (nn.GRUCell(3, 5), {"weight_ih": in_parts(3), "weight_hh": in_parts(3)}),
    (nn.LSTMCell(3, 5), {"weight_ih": in_parts(4), "weight_hh": in_parts(4)}),
    (nn.MultiheadAttention(4, 2), {"in_proj_weight": in_parts(3), "out_proj.weight": by_svd}),
    (
        nn.MultiheadAttention(4, 2, kdim=3, vdim=6),
        {f"{q}_proj_weight": by_svd for q in "qkv"} | {"out_proj.weight": by_svd},
    ),
    (Conv1D(6, 4), {"weight": lambda W: by_svd(W.T).T}),
    (nn.ModuleDict({"c_attn": Conv1D(12, 4)}), {"c_attn.weight": lambda W: in_parts(3)(W.T).T}),
]


@pytest.mark.parametrize(("module", "expected"), KINDS, ids=lambda value: str(value)[:24])
def test_every_matrix_equals_its_singular_value_decomposition(module: nn.Module, expected: dict[str, Any]) -> None:
    module = copy.deepcopy(module)
    before = snapshot(module)
    written = fire_(module, "polar")
    assert set(written) == set(expected)
    assert written.skipped == {}
    for name, parameter in module.named_parameters():
        wanted = expected[name](before[name]) if name in expected else before[name]
        torch.testing.assert_close(parameter.detach(), wanted)


def test_query_key_and_value_can_be_split_by_the_user_under_any_name() -> None:
    first, second = nn.Linear(4, 12), nn.Linear(4, 12)
    second.weight = first.weight
    module = nn.ModuleList([first, second])
    before = first.weight.detach().clone()
    fire_(module, "polar", split={"1.weight": 3})
    torch.testing.assert_close(first.weight.detach(), in_parts(3)(before))


def int8_linear() -> nn.Module:
    layer = nn.Linear(3, 3)
    layer.weight = nn.Parameter(torch.ones(3, 3, dtype=torch.int8), requires_grad=False)
    return layer


KEPT = [
    (lambda: nn.Embedding(5, 3), "weight", "an embedding"),
    (lambda: nn.ConvTranspose1d(3, 3, 2), "weight", "a parameter of ConvTranspose1d, and no known matrix"),
    (lambda: nn.ParameterDict({"token": torch.ones(1, 4)}), "token", "a parameter of ParameterDict"),
    (lambda: nn.Linear(3, 3).requires_grad_(False), "weight", "frozen"),
    (lambda: nn.LazyLinear(3), "weight", "lazy or on the meta device"),
    (lambda: nn.Linear(3, 3, device="meta"), "weight", "lazy or on the meta device"),
    (lambda: parametrizations.weight_norm(nn.Linear(3, 3)), "weight", "parametrized"),
    (lambda: parametrizations.weight_norm(nn.GRU(3, 3), "weight_hh_l0"), "weight_hh_l0", "parametrized"),
    (int8_linear, "weight", "quantised, complex or sparse (Tensor of torch.int8)"),
    (lambda: nn.Linear(3, 3).to(torch.float8_e4m3fn), "weight", "quantised (torch.float8_e4m3fn)"),
    (lambda: nn.Linear(3, 3, dtype=torch.complex64), "weight", "quantised, complex or sparse"),
]


@pytest.mark.parametrize(("make_layer", "name", "why"), KEPT, ids=[why for _, _, why in KEPT])
def test_weights_that_cannot_be_rewritten_are_kept_bit_for_bit_and_named(
    make_layer: Callable[[], nn.Module], name: str, why: str
) -> None:
    module = nn.Sequential(nn.Linear(3, 3), make_layer())
    valued = "meta" not in why
    before = {key: value.clone() for key, value in module[1].state_dict().items()} if valued else {}
    written = fire_(module)
    assert "0.weight" in written
    assert written.skipped[f"1.{name}"].startswith(why)
    assert f"1.{name}" not in written
    for key, value in before.items():
        if f"1.{key}" not in written:
            assert torch.equal(module[1].state_dict()[key].abs().float(), value.abs().float()), key
    if why == "frozen":  # a user may mean a frozen weight, such as a target network's
        assert fire_(module, names=["1.weight"]) == ["1.weight"]
    else:
        with refused(f"^1.{name} is "):
            fire_(module, names=[f"1.{name}"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gates_in_half_precision_keep_their_type(dtype: torch.dtype) -> None:
    cell = nn.GRUCell(4, 4).to(dtype)
    expected = in_parts(3)(cell.weight_hh.detach().float())
    fire_(cell, "polar")
    assert cell.weight_hh.dtype == dtype
    torch.testing.assert_close(cell.weight_hh.detach().float(), expected, rtol=0, atol=0.01)


# -- the hook ---------------------------------------------------------------------------------------------------------


class Memory(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 4)
        self.gru = nn.GRU(4, 4, batch_first=True)
        self.act = nn.ReLU()
        self.hidden, self.head = nn.Linear(4, 4), nn.Linear(4, 9, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.hidden(self.gru(self.table(x))[0])))


def memory() -> Any:
    torch.manual_seed(0)
    module = Memory()
    layers = (Layer("hidden", module.hidden, "hidden", 0), Layer("head", module.head, "head", 1))
    optimizer = torch.optim.Adam(module.parameters())
    x = torch.arange(8).view(2, 4)
    return learner_for(
        module, optimizer, probe=lambda: (x,), loss=lambda: module(x).square().sum(), layers=layers,
        followers=(copy.deepcopy(module).requires_grad_(False),),
    )  # fmt: skip


def test_the_hook_writes_gates_and_keeps_tied_and_frozen_weights() -> None:
    learner = memory()
    learner.module.gru.weight_ih_l0.requires_grad_(False)
    fire = make("fire", method="polar")
    fire.attach(learner)
    before = snapshot(learner.module)
    assert set(fire.apply(learner)) == {"gru.weight_hh_l0", "hidden.weight"}
    assert changed(learner.module, before) == {"gru.weight_hh_l0", "hidden.weight"}
    torch.testing.assert_close(learner.module.gru.weight_hh_l0.detach(), in_parts(3)(before["gru.weight_hh_l0"]))
    assert fire.contract(learner)["weights"] == (
        "all; kept: gru.weight_ih_l0 (frozen (requires_grad=False)); table.weight (tied to the embedding 'table')"
    )
    assert not changed(learner.followers[0], snapshot(learner.module))


def test_a_scope_that_names_the_tied_head_writes_it() -> None:
    learner = memory()
    fire = make("fire", scope="head")
    fire.attach(learner)
    assert fire.apply(learner) == ["table.weight"]
    assert fire.contract(learner)["weights"] == "head"


def test_measured_isometry_is_that_of_the_matrices_that_are_written() -> None:
    learner = memory()
    learner.layers = learner.layers[:1]
    make("fire", method="polar").apply(learner)
    assert measure(learner)["dfi_unscaled"] < 1e-8
    module = nn.Sequential(Conv1D(6, 4), nn.ReLU(), Conv1D(3, 6))
    with torch.no_grad():
        module[2].weight.zero_()
    numbers = measure(learner_for(module))
    singular = torch.linalg.svdvals(module[0].weight.detach().double())
    assert numbers["dfi"] == pytest.approx(float(((singular**2 - 1) ** 2).sum()) + 3)


@pytest.mark.parametrize("name", ["parseval", "spectral", "wasserstein"])
def test_penalties_leave_frozen_weights_out(name: str) -> None:
    whole = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    whole[0].requires_grad_(False)
    penalties = [make(name).penalty(learner_for(module)) for module in (whole, nn.Sequential(whole[2]))]
    assert torch.equal(*penalties)


def test_a_transposed_weight_is_treated_as_the_linear_layer_that_it_is() -> None:
    """Its scope, the bound of its clip, the rows that dash shrinks, and its spectral penalty are those of a Linear."""
    linear, transposed = nn.Sequential(nn.Linear(9, 4)), nn.Sequential(Conv1D(4, 9))
    with torch.no_grad():
        transposed[0].weight.copy_(linear[0].weight.T)
        transposed[0].bias.copy_(linear[0].bias)
    x = torch.randn(8, 9)
    ours = learner_for(transposed, batches=lambda _: iter([(x @ transposed[0].weight).square().sum(1)]))
    theirs = learner_for(linear, batches=lambda _: iter([(x @ linear[0].weight.T).square().sum(1)]))
    assert ours.select("linear")
    for name in ("parseval", "spectral"):
        torch.testing.assert_close(*(make(name).penalty(target) for target in (ours, theirs)))
    for target in (ours, theirs):
        make("weight_clip", kappa=0.3).after_update(target)
    assert transposed[0].weight.detach().abs().max().item() == pytest.approx(0.1)
    for target in (ours, theirs):
        make("dash", scope="linear").apply(target)
    torch.testing.assert_close(transposed[0].weight.T, linear[0].weight)
