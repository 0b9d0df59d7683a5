"""Odd functions: what they return or raise, and what they give as the network at initialisation."""

import asyncio
import os
import sys
from collections import namedtuple

import numpy as np
import torch
from torch import nn

from tests.zoo.odd import WILL, Body, Unprintable, net, will, with_weight, x
from tests.zoo.odd_modules import m_cycle


@will("refused")
def r_none():
    return None


@will("refused")
def r_array():
    return np.zeros((3, 4))


@will("refused")
def r_empty_tuple():
    return ()


@will("refused")
def r_one_tuple():
    return (net(),)


@will("refused")
def r_four():
    return net(), x(), net, 3


@will("refused")
def r_list():
    return [1, 2]


@will("refused")
def r_dict():
    return {"module": net(), "inputs": x()}


@will("refused")
def r_swapped():
    return x(), net()


@will("refused")
def r_generator():
    yield net()
    yield x()


@will("refused")
async def r_coroutine():
    return net(), x()


@will("refused")
async def r_async_generator():
    yield net()


@will("refused")
def r_class():
    return Body, x()


@will("refused")
def r_module_only():
    return net()


@will("refused")
def r_tensor():
    return x()


@will("refused")
def r_string():
    return "net"


@will("refused")
def r_lambda():
    return (lambda x: x), x()


@will("refused")
def r_argument(width):
    return net(), x()


r_value = (net(), x())
WILL["r_value"] = "refused"
r_number = 3
WILL["r_number"] = "refused"
r_a_module = net()
WILL["r_a_module"] = "refused"


class r_class_itself:
    pass


WILL["r_class_itself"] = "refused"


@will("refused")
def r_state_dict():
    return net().state_dict(), x()


@will("either")
def r_named_tuple():
    return namedtuple("Given", "module inputs")(net(), x())


@will("refused")
def r_self():
    return r_self


class Lying(tuple):
    def __len__(self):
        raise RuntimeError("no length")

    def __repr__(self):
        raise RuntimeError("no text")


@will("refused")
def r_lying():
    return Lying((net(), x()))


@will("diagnosed")
def e_elsewhere():
    os.chdir("/")
    return net(), x()


@will("diagnosed")
def e_other_numbers():
    torch.set_default_dtype(torch.float64)
    sys.stdout = None
    return net().float(), x().float()


@will("refused")
def e_unprintable():
    raise Unprintable


@will("refused")
def e_exit_0():
    sys.exit(0)


@will("refused")
def e_exit_none():
    raise SystemExit


@will("refused")
def e_exit_text():
    sys.exit("over")


@will("refused")
def e_interrupt():
    raise KeyboardInterrupt


@will("refused")
def e_generator_exit():
    raise GeneratorExit


@will("refused")
def e_cancelled():
    raise asyncio.CancelledError


@will("refused")
def e_base():
    raise BaseException("bottom")


@will("refused")
def e_recursion():
    return e_recursion()


@will("refused")
def e_many_lines():
    raise ValueError("one\ntwo\n\x1b[31mthree\r\nfour" + "x" * 10_000)


@will("refused")
def e_group():
    raise BaseExceptionGroup("several", [KeyboardInterrupt(), SystemExit(0)])


@will("refused")
def e_memory():
    raise MemoryError


@will("refused")
def e_broken_pipe():
    raise BrokenPipeError


@will("refused")
def e_os():
    open("/nowhere/at/all")  # noqa: SIM115


@will("refused")
def e_stop():
    raise StopIteration


@will("refused")
def e_assert():
    raise AssertionError


@will("refused")
def e_stdin():
    return net(), x(int(input()))


@will("refused")
def e_usage_like():
    raise ValueError("")


def other():
    return net(4, 3)


class Odd(dict):
    def items(self):
        raise RuntimeError("no items")


THIRD = {
    "none": lambda: None, "empty": dict, "number": lambda: 3, "module": net, "string": lambda: "x",
    "other": lambda: net(4, 3).state_dict(),
    "numbers": lambda: {"0.weight": 3}, "arrays": lambda: {n: v.numpy() for n, v in net().state_dict().items()},
    "keys": lambda: {3: x()},
    "nan": lambda: with_weight(torch.nan).state_dict(), "meta": lambda: net().to("meta").state_dict(),
    "complex": lambda: net().to(torch.complex64).state_dict(),
    "ints": lambda: {n: v.long() for n, v in net().state_dict().items()},
    "sparse": lambda: {n: v.to_sparse() for n, v in net().state_dict().items()},
    "odd": lambda: Odd(net().state_dict()), "class": lambda: nn.Linear, "exits": lambda: lambda: sys.exit(0),
    "interrupts": lambda: e_interrupt,
    "raises": lambda: e_many_lines, "makes_none": lambda: lambda: None, "makes_tuple": lambda: lambda: (net(), x()),
    "makes_class": lambda: lambda: Body,
    "makes_other": lambda: other, "makes_meta": lambda: lambda: net().to("meta"),
    "makes_nan": lambda: lambda: with_weight(torch.nan),
    "makes_lazy": lambda: lambda: nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(2)),
    "needs": lambda: lambda width: net(),
    "recursion": lambda: e_recursion, "generator": lambda: r_generator, "coroutine": lambda: r_coroutine,
    "list": lambda: [("0.weight", x())],
    "makes_scripted": lambda: lambda: torch.jit.script(net()), "makes_cycle": lambda: lambda: m_cycle()[0],
    "memory": lambda: e_memory,
    "half": lambda: net().half().state_dict(), "inf": lambda: with_weight(torch.inf).state_dict(),
    "quantised": lambda: {n: torch.quantize_per_tensor(v, 0.1, 0, torch.qint8) for n, v in net().state_dict().items()},
}  # fmt: skip
FITS = {"none": "diagnosed", "half": "either", "makes_scripted": "either", "ints": "either", "sparse": "either"}
for _name, _third in THIRD.items():
    globals()[f"t_{_name}"] = lambda third=_third: (net(), x(), third())
    WILL[f"t_{_name}"] = FITS.get(_name, "refused")
