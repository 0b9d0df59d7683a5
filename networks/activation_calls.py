"""Calls of activations in a forward pass, and their names: modules, each time they are called, and functions (F.relu).

act             the first call of the module `act`
act#2           its second call, where one nn.ReLU() serves several layers
F.relu          the first call of a function relu (F.relu, torch.relu, x.relu()) in the network's own forward pass
body.F.relu#2   the second one in the forward pass of its submodule `body`
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

# Functions and methods that count as activations, by the name that they have without a final underscore.
FUNCTIONS = frozenset({
    *("relu", "relu6", "leaky_relu", "rrelu", "prelu", "elu", "celu", "selu", "gelu", "silu", "mish", "glu"),
    *("softplus", "hardtanh", "tanh", "sigmoid", "hardsigmoid", "hardswish", "logsigmoid", "softsign", "tanhshrink"),
    *("softshrink", "hardshrink", "threshold"),
})  # fmt: skip
_FORM = re.compile(r"(?P<path>.*?)(?:(?:^|\.)F\.(?P<function>\w+))?(?:#(?P<number>\d+))?")


@dataclass(frozen=True)
class ActivationCall:
    """One call in a forward pass.

    Attributes:
        path: The module that is called, or in whose forward pass the function is called.
        function: The name of the function, or "" if a module is called.
        number: Counts the calls of this module or function from 1.
    """

    path: str
    function: str = ""
    number: int = 1

    def __str__(self) -> str:
        name = ".".join(part for part in (self.path, f"F.{self.function}" if self.function else "") if part)
        return name if self.number == 1 else f"{name}#{self.number}"


@cache
def parse_call_name(name: str) -> ActivationCall:
    """Return the call of that name."""
    match = _FORM.fullmatch(name)
    assert match is not None  # the form fits every text
    return ActivationCall(match["path"], match["function"] or "", int(match["number"] or 1))


def function_name(function: Any) -> str:
    """Return the name of an activation function, the same for relu and relu_; "" for other functions."""
    name = str(getattr(function, "__name__", function)).rstrip("_")
    return name if name in FUNCTIONS else ""
