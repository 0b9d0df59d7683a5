"""Forward passes without the overhead of calling modules, for agents that act on single observations."""

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.registry.native import load_native

from .stacked import StackedLinear

MOST_LAYERS, MOST_UNITS = 16, 1024  # as in forward.c
MOST_ROWS = 8  # of each network; PyTorch's products are faster with more
REORDERED = (
    "-O3", "-march=native", "-mprefer-vector-width=512", "-fassociative-math", "-fno-signed-zeros",
    "-fno-trapping-math", "-fno-math-errno",
)  # fmt: skip


def direct(*modules: nn.Module, compiled: bool = False) -> Callable[[Tensor], Tensor]:
    """Return a function that computes the modules one after the other, to the same bits, but faster.

    With one observation and layers of 128 units, calling modules takes about as long as the arithmetic. Modules with
    forward hooks are called as usual. Use the function without gradients. It sees changes of parameters in place, but
    not a new parameter or hook: then call `direct` again. A stack takes inputs of each member, (members, n, d).

    Args:
        modules: The modules.
        compiled: Return a `CompiledForward` if there is one for these modules here. Its sums have another order, so it
            is equal up to rounding.
    """
    functions = [function for module in modules for function in _functions(module)]

    def forward(inputs: Tensor) -> Tensor:
        for function in functions:
            inputs = function(inputs)
        return inputs

    layers = _plain_layers(modules) if compiled else []
    library = load_native(Path(__file__).with_name("forward.c"), *REORDERED) if layers else None
    return forward if library is None else CompiledForward(layers, library, forward)


def _functions(module: nn.Module) -> Iterator[Callable[[Tensor], Tensor]]:
    if module._forward_hooks or module._forward_pre_hooks:
        yield module
    elif type(module) is nn.Sequential:
        for part in module:
            yield from _functions(part)
    elif type(module) is nn.Linear:
        bias = None if module.bias is None else module.bias.detach()
        yield partial(F.linear, weight=module.weight.detach(), bias=bias)
    elif type(module) is StackedLinear and module.bias is not None:
        yield partial(torch.baddbmm, module.bias.detach()[:, None], batch2=module.weight.detach().mT)
    else:
        yield module.forward


class _Network(ctypes.Structure):
    """`struct network` of forward.c, which explains the fields."""

    _fields_ = [
        ("members", ctypes.c_int64),
        ("layers", ctypes.c_int64),
        ("sizes", ctypes.c_int64 * (MOST_LAYERS + 1)),
        ("weights", ctypes.c_void_p * MOST_LAYERS),
        ("biases", ctypes.c_void_p * MOST_LAYERS),
        ("slopes", ctypes.c_float * MOST_LAYERS),
    ]


class CompiledForward:
    """The outputs of a small multilayer perceptron, or of a stack of them, in C.

    Args:
        layers: Weight (*stack, d_out, d_in), bias (*stack, d_out) and slope of each layer (see `_plain_layers`).
        library: The functions of forward.c.
        otherwise: Computes the outputs for more than `MOST_ROWS` inputs of a network.
    """

    def __init__(
        self,
        layers: Sequence[tuple[Tensor, Tensor, float]],
        library: ctypes.CDLL,
        otherwise: Callable[[Tensor], Tensor],
    ) -> None:
        self.layers, self.run, self.otherwise = layers, library.run_network, otherwise  # C has addresses of the layers
        first, last = layers[0][0], layers[-1][0]
        self.network = _Network(members=len(first) if first.ndim == 3 else 1, layers=len(layers))
        self.network.sizes[0], self.outputs = first.shape[-1], last.shape[-2]
        for place, (weight, bias, slope) in enumerate(layers):
            self.network.sizes[place + 1] = weight.shape[-2]
            self.network.weights[place], self.network.biases[place] = weight.data_ptr(), bias.data_ptr()
            self.network.slopes[place] = slope

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return the outputs, (*stack, n, outputs), for inputs of float32, (*stack, n, d)."""
        rows = inputs.shape[-2]
        if rows > MOST_ROWS:
            return self.otherwise(inputs)
        inputs, outputs = inputs.contiguous(), inputs.new_empty(*inputs.shape[:-1], self.outputs)
        addresses = ctypes.c_void_p(inputs.data_ptr()), ctypes.c_void_p(outputs.data_ptr())
        self.run(ctypes.byref(self.network), ctypes.c_int64(rows), *addresses)
        return outputs


def _plain_layers(modules: Sequence[nn.Module]) -> list[tuple[Tensor, Tensor, float]]:
    """Return weight, bias and slope of each layer of small networks on the CPU, or [] if there is anything else.

    The slope is that of the activation after the layer, below 0: 1 if there is none, NaN for tanh."""
    layers: list[tuple[Tensor, Tensor, float]] = []
    for part in (leaf for module in modules for leaf in _leaves(module)):
        after = layers[-1][2] if layers else math.inf
        if part._forward_hooks or part._forward_pre_hooks:
            return []
        if type(part) in (nn.Linear, StackedLinear) and part.bias is not None:
            layers.append((part.get_parameter("weight").detach(), part.get_parameter("bias").detach(), 1.0))
        elif type(part) in (nn.Tanh, nn.ReLU, nn.LeakyReLU) and after == 1.0:
            slope = {nn.Tanh: math.nan, nn.ReLU: 0.0}.get(type(part), getattr(part, "negative_slope", 0.0))
            layers[-1] = (*layers[-1][:2], slope)
        elif type(part) is not nn.Identity:
            return []
    tensors = [tensor for layer in layers for tensor in layer[:2]]
    plain = all(t.dtype == torch.float32 and t.device.type == "cpu" and t.is_contiguous() for t in tensors)
    small = len(layers) <= MOST_LAYERS and all(max(weight.shape[-2:]) <= MOST_UNITS for weight, _, _ in layers)
    return layers if plain and small else []


def _leaves(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the modules of nested Sequentials; one with hooks is yielded itself."""
    if type(module) is nn.Sequential and not (module._forward_hooks or module._forward_pre_hooks):
        for part in module:
            yield from _leaves(part)
    else:
        yield module
