"""Odd functions: what the forward passes of their modules do, and their inputs."""

import sys
from collections import OrderedDict, UserDict
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from tests.zoo.odd import WILL, Body, Unprintable, net, will, x


def answering(function):
    class Answering(Body):
        calls = 0

        def forward(self, x):
            self.calls += 1
            Answering.total = getattr(Answering, "total", 0) + 1
            return function(self, x, Answering.total)

    return Answering(), x()


def raising(error, at):
    def forward(self, x, call):
        if call >= at:
            raise error
        return self.body(x)

    return answering(forward)


for _name, _error in {
    "exit": SystemExit(0), "interrupt": KeyboardInterrupt(), "recursion": RecursionError("deep"), "key": KeyError("w"),
    "memory": MemoryError(), "pipe": BrokenPipeError(), "generator": GeneratorExit(), "own": Unprintable(),
    "stop": StopIteration(), "os": FileNotFoundError(2, "No such file", "weights.npy"), "import": ImportError("cv2"),
    "not_implemented": NotImplementedError(), "runtime": RuntimeError("one\ntwo"),
}.items():  # fmt: skip
    for _at in (1, 2, 3, 4, 6, 12, 30):
        _f = f"f_{_name}_{_at}"
        globals()[_f] = lambda error=_error, at=_at: raising(error, at)
        WILL[_f] = "refused" if _at < 12 else "either"


@will("diagnosed")
def f_prints():
    def forward(self, x, call):
        print("forward")
        return self.body(x)

    return answering(forward)


@will("refused")
def f_stdin():
    def forward(self, x, call):
        return self.body(x) + int(input("how many? "))

    return answering(forward)


@will("refused")
def f_two_inputs():
    class Two(Body):
        def forward(self, x, y):
            return self.body(x + y)

    return Two(), x()


@will("refused")
def f_no_inputs():
    class Zero(Body):
        def forward(self):
            return self.body(torch.ones(3, 4))

    return Zero(), x()


@will("refused")
def f_constant():
    class Zero(Body):
        def forward(self):
            return self.body(torch.ones(3, 4))

    return Zero(), ()


RETURNS = {
    "string": lambda y: "text", "none": lambda y: None, "nested": lambda y: {"a": {"b": [y]}},
    "nan": lambda y: y * torch.nan,
    "inf": lambda y: y / 0, "int": lambda y: y.argmax(1), "list_of_lists": lambda y: [[y]],
    "numpy": lambda y: y.detach().numpy(),
    "detached": lambda y: y.detach(), "float": lambda y: float(y.sum()), "mean": lambda y: y.mean(),
    "empty": lambda y: y[:0],
    "no_columns": lambda y: y[:, :0], "complex": lambda y: y.to(torch.complex64), "bool": lambda y: y > 0,
    "set": lambda y: {y},
    "iterator": lambda y: iter([y]), "self": lambda y: net(), "zeros": lambda y: y * 0, "one_row": lambda y: y[:1],
    "rows_differ": lambda y: (y, y[:3]), "empty_tuple": lambda y: (), "sparse": lambda y: y.to_sparse(),
    "meta": lambda y: y.to("meta"),
    "some_nan": lambda y: torch.where(torch.arange(len(y))[:, None] == 0, torch.nan, y),
    "self_dict": lambda y: (d := {}, d.update(d=d))[0],
    "distribution": lambda y: torch.distributions.Normal(y, 1.0), "huge": lambda y: y * 1e38,
    "user_dict": lambda y: UserDict(a=y),
    "ordered": lambda y: OrderedDict(a=y), "constant_tensor": lambda y: torch.ones(len(y), 2, requires_grad=True) * 1,
    "generator": lambda y: (y for _ in range(1)),
}  # fmt: skip
FINE = {
    "user_dict": "diagnosed",
    "ordered": "diagnosed",
    "huge": "either",
    "rows_differ": "either",
    "one_row": "refused",
}
for _name, _answer in RETURNS.items():
    globals()[f"f_{_name}"] = lambda answer=_answer: answering(lambda self, x, call: answer(self.body(x)))
    WILL[f"f_{_name}"] = FINE.get(_name, "refused")


@will("either")
def f_random():
    return answering(lambda self, x, call: self.body(x) + torch.randn(len(x), 2))


@will("refused")
def f_other_shape_each_time():
    return answering(lambda self, x, call: self.body(x)[: 32 - call])


@will("refused")
def f_other_type_later():
    return answering(lambda self, x, call: self.body(x) if call < 5 else None)


@will("refused")
def f_nan_later():
    return answering(lambda self, x, call: self.body(x) if call < 5 else self.body(x) * torch.nan)


@will("either")
def f_grows():
    def forward(self, x, call):
        setattr(self, f"layer{call}", nn.Linear(4, 4))
        return self.body(x)

    return answering(forward)


@will("either")
def f_removes():
    def forward(self, x, call):
        y = self.body(x)
        del self.two
        return y

    return answering(forward)


@will("either")
def f_no_grad():
    def forward(self, x, call):
        with torch.no_grad():
            return self.body(x)

    return answering(forward)


@will("either")
def f_backward():
    def forward(self, x, call):
        y = self.body(x)
        y.sum().backward(retain_graph=True)
        return y

    return answering(forward)


@will("refused")
def f_hook_raises():
    module = Body()
    module.act.register_forward_hook(lambda *_: 1 / 0)
    return module, x()


@will("refused")
def f_hook_exits():
    module = Body()
    module.act.register_forward_hook(lambda *_: sys.exit(0))
    return module, x()


@will("refused")
def f_backward_hook_exits():
    module = Body()
    module.one.weight.register_hook(lambda _: sys.exit(0))
    return module, x()


@will("refused")
def f_backward_hook_raises():
    module = Body()
    module.two.register_full_backward_hook(lambda *_: 1 / 0)
    return module, x()


@will("refused")
def f_coroutine():
    class Later(Body):
        async def forward(self, x):
            return self.body(x)

    return Later(), x()


@will("refused")
def f_is_none():
    module = Body()
    module.forward = None
    return module, x()


@will("refused")
def f_is_text():
    module = Body()
    module.forward = "forward"
    return module, x()


@will("refused")
def f_huge_memory():
    return answering(lambda self, x, call: self.body(x) + torch.ones(2**40))


INPUTS = {
    "nan": lambda: x() * torch.nan, "one_nan": lambda: torch.cat([x(), x()[:1] * torch.nan]), "inf": lambda: x() / 0,
    "no_rows": lambda: x()[:0], "no_columns": lambda: x()[:, :0], "one_row": lambda: x()[:1], "none": lambda: None,
    "string": lambda: "x",
    "array": lambda: x().numpy(), "objects": lambda: np.array([None, 3], object), "list": lambda: [[1.0, 2.0]],
    "empty_list": list,
    "dict": lambda: {"x": x()}, "ints": lambda: torch.ones(3, 4, dtype=torch.int64), "double": lambda: x().double(),
    "bool": lambda: x() > 0,
    "complex": lambda: x().to(torch.complex64), "wrong_width": lambda: x(32, 5), "one_axis": lambda: x()[0],
    "scalar": lambda: torch.tensor(3.0),
    "equal_rows": lambda: torch.ones(32, 4), "meta": lambda: x().to("meta"), "sparse": lambda: x().to_sparse(),
    "number": lambda: 3.0,
    "too_many": lambda: (x(), x()), "nested": lambda: ((x(),),), "half": lambda: x().half(),
    "huge": lambda: x() * 1e38, "function": lambda: x,
    "nan_array": lambda: (x().numpy() * np.nan,), "generator": lambda: (x() for _ in range(2)),
    "names": lambda: ("a", "b"),
    "nested_nan": lambda: ([x() * torch.nan],), "uninitialised": lambda: nn.parameter.UninitializedParameter(),
    "denormal": lambda: x() * 1e-42,
    "huge_view": lambda: torch.ones(1, 4).expand(2**40, 4), "needs_grad": lambda: x().requires_grad_(),
    "nested_tensor": lambda: torch.nested.nested_tensor([x(), x(3)]),
    "path": lambda: __file__, "class": lambda: nn.Linear, "module": net, "none_tuple": lambda: (None,),
    "empty_tuple": tuple,
    "ndarray_string": lambda: np.array(["a"]), "equal_large": lambda: torch.full((32, 4), 1e6) + x() * 1e-3,
    "quantised": lambda: torch.quantize_per_tensor(x(), 0.1, 0, torch.qint8),
    "two_rows": lambda: x()[:2],
}  # fmt: skip
MAY = {
    "needs_grad": "diagnosed",
    "denormal": "either",
    "huge": "either",
    "equal_large": "either",
    "two_rows": "diagnosed",
}
for _name, _inputs in INPUTS.items():
    globals()[f"i_{_name}"] = lambda inputs=_inputs: (net(), inputs())
    WILL[f"i_{_name}"] = MAY.get(_name, "refused")


@will("refused")
def i_indices_beyond():
    return nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 2)), torch.arange(20)


@will("refused")
def i_nan_by_name():
    class Named(Body):
        def forward(self, given):
            return self.body(given["x"])

    return Named(), ({"x": x() * torch.nan},)


@will("refused")
def i_nan_in_object():
    @dataclass
    class Batch:
        x: torch.Tensor

    class Named(Body):
        def forward(self, given):
            return self.body(given.x)

    return Named(), (Batch(x() * torch.nan),)
