"""Choose the library that multiplies float32 matrices on a CPU: MKL, or oneDNN where it is faster.

On AMD's processors, MKL multiplies with AVX2 even where there is AVX-512. oneDNN, which PyTorch also contains, uses
AVX-512. On an AMD EPYC of family 26, oneDNN makes 230 billion operations a second on one thread and MKL 105, but a call
takes 12 µs instead of 2. Both take equally long for a product of two million operations, such as that of 64 rows with a
layer of 128 × 128. From 30 million on, oneDNN takes half as long.

PyTorch uses oneDNN for products of float32 only if it also allows rounding them to bfloat16. oneDNN does so on
processors with AMX. On others it computes in float32, which `onednn_keeps_float32` checks by the rounding errors of a
product.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from statistics import fmean

import torch
from torch import Tensor

from .resources import processor_maker

MATMUL = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
PAYS_FROM = 2_000_000  # floating-point operations of a product
SIDE, ERROR = 64, 1e-4  # of the product that is checked; bfloat16 has an error of 1e-2


@cache
def onednn_keeps_float32() -> bool:
    """Return whether oneDNN, when it may round to bfloat16, multiplies in float32 all the same."""
    numbers = torch.randn(2, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    with OneDNN():
        found = numbers[0] @ numbers[1]
    return bool((found - numbers[0].double() @ numbers[1].double()).abs().max() < ERROR)


def faster_matmul(weights: Iterable[Tensor], rows: int) -> AbstractContextManager[None]:
    """Return a context, to be entered again and again, in which these products take the least time on this machine.

    The choice depends on the processor's maker, its instructions and the sizes, and never on a measurement, so that a
    run has the same numbers whenever it is repeated on a machine.

    Args:
        weights: The weights of linear layers, (d_out, d_in) or (members, d_out, d_in).
        rows: The rows that are multiplied with them, of each member.
    """
    ours = [weight for weight in weights if weight.device.type == "cpu" and weight.dtype == torch.float32]
    operations = [2 * weight.numel() * rows for weight in ours]
    pays = bool(operations) and fmean(operations) >= PAYS_FROM and _mkl_is_slow()
    return OneDNN() if pays else nullcontext()


class OneDNN(AbstractContextManager[None]):
    """A context in which oneDNN computes products of float32. It can be entered again and again, not within itself."""

    def __enter__(self) -> None:
        self.before = MATMUL.fp32_precision
        MATMUL.fp32_precision = "bf16"

    def __exit__(self, *error: object) -> None:
        MATMUL.fp32_precision = self.before


def _mkl_is_slow() -> bool:
    return (
        torch.backends.mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and processor_maker() == "AuthenticAMD"
        and onednn_keeps_float32()
    )
