"""Which library multiplies float32 matrices, and that it keeps their precision."""

from contextlib import nullcontext

import pytest
import torch

from supple.engine.machine import matmul as products
from supple.engine.machine.matmul import OneDNN, faster_matmul, onednn_keeps_float32

WIDE, NARROW = torch.zeros(256, 256), torch.zeros(64, 64)


@pytest.fixture
def slow_mkl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this be a machine on which oneDNN is faster."""
    monkeypatch.setattr(products, "_mkl_is_slow", lambda: True)


@pytest.mark.usefixtures("slow_mkl")
def test_large_products_are_onednns_and_small_ones_mkls() -> None:
    assert isinstance(faster_matmul([WIDE], 32), OneDNN)
    assert isinstance(faster_matmul([NARROW] * 2, 32), nullcontext)
    assert isinstance(faster_matmul([NARROW.expand(10, 64, 64)], 32), OneDNN)  # ten members
    assert isinstance(faster_matmul([WIDE, *[NARROW[:1]] * 3], 32), nullcontext)  # most are too small
    assert isinstance(faster_matmul([WIDE.double()], 32), nullcontext)
    assert isinstance(faster_matmul([], 32), nullcontext)
    assert isinstance(faster_matmul([WIDE], 0), nullcontext)


@pytest.mark.parametrize(("name", "value"), [("processor_maker", "GenuineIntel"), ("onednn_keeps_float32", False)])
def test_where_mkl_is_fast_or_onednn_rounds_to_bfloat16_nothing_changes(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, name, lambda: value)
    assert isinstance(faster_matmul([WIDE], 256), nullcontext)


def test_the_setting_is_put_back_also_after_an_error() -> None:
    context, before = OneDNN(), products.MATMUL.fp32_precision

    def fail() -> None:
        with context:
            assert products.MATMUL.fp32_precision == "bf16"
            raise RuntimeError("stop")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="stop"):
            fail()
        assert products.MATMUL.fp32_precision == before


@pytest.mark.skipif(not onednn_keeps_float32(), reason="oneDNN rounds to bfloat16 on this processor")
@pytest.mark.parametrize("shape", [(), (5,)])
def test_products_and_their_gradients_have_the_precision_of_float32(shape: tuple[int, ...]) -> None:
    x, w = torch.randn(*shape, 64, 128), torch.randn(*shape, 96, 128) / 128**0.5
    results = []
    for context, dtype in ((OneDNN(), torch.float32), (nullcontext(), torch.float64)):
        own = [t.to(dtype, copy=True).requires_grad_() for t in (x, w)]
        with context:
            y = own[0] @ own[1].mT
            results.append([y.detach(), *torch.autograd.grad(y.square().sum(), own)])
    for ours, exact in zip(*results, strict=True):
        assert (ours - exact).abs().max() <= 1e-5 * exact.abs().max()
