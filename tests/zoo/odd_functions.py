"""Functions that describe a network to `supple doctor`, each odd in one way. `WILL` says what is right for each."""

import asyncio
import sys
from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

WILL = {}  # function → refused, diagnosed, or either


def will(what):
    def mark(function):
        WILL[function.__name__] = what
        return function

    return mark


def x(n=32, d=4):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(0))


def net(d=4, last=2):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(d, 8), nn.ReLU(), nn.Linear(8, last))


class Body(nn.Module):
    """A network with another forward."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.act, self.two = nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)

    def body(self, x):
        return self.two(self.act(self.one(x)))

    def forward(self, x):
        return self.body(x)


# -- what a function returns ------------------------------------------------------------------------------------------


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


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


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


# -- modules ----------------------------------------------------------------------------------------------------------


@will("refused")
def m_no_parameters():
    return nn.ReLU(), x()


@will("refused")
def m_identity():
    return nn.Identity(), x()


@will("refused")
def m_cycle():
    module = Body()
    module.inner = module
    return module, x()


@will("refused")
def m_cycle_of_two():
    a, b = Body(), Body()
    a.other, b.other = b, a
    return a, x()


@will("refused")
def m_cycle_used():
    module = nn.Sequential(nn.Linear(4, 4))
    module.append(module)
    return module, x()


@will("diagnosed")
def m_shared():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(4, 2)), x()


@will("refused")
def m_meta():
    return net().to("meta"), x()


@will("refused")
def m_meta_both():
    return net().to("meta"), x().to("meta")


@will("refused")
def m_partly_meta():
    module = net()
    module[2].to("meta")
    return module, x()


@will("either")
def m_half():
    return net().half(), x().half()


@will("either")
def m_bfloat16():
    return net().bfloat16(), x().bfloat16()


@will("diagnosed")
def m_double():
    return net().double(), x().double()


@will("refused")
def m_complex():
    return net().to(torch.complex64), x().to(torch.complex64)


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(4, 8).to(torch.complex64)
        self.v = nn.Linear(8, 2)

    def forward(self, x):
        return self.v(self.w(x.to(torch.complex64)).abs())


@will("either")
def m_partly_complex():
    return Complex(), x()


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(4, 2, dtype=torch.int64), requires_grad=False)

    def forward(self, x):
        return x.long() @ self.w


@will("refused")
def m_int():
    return Whole(), x()


@will("either")
def m_int_beside():
    module = Body()
    module.count = nn.Parameter(torch.arange(3), requires_grad=False)
    return module, x()


@will("either")
def m_quantised():
    return torch.ao.quantization.quantize_dynamic(net(), {nn.Linear}), x()


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.eye(4).to_sparse())

    def forward(self, x):
        return torch.sparse.mm(self.w, x.T).T


@will("refused")
def m_sparse():
    return Sparse(), x()


@will("either")
def m_sparse_gradient():
    return nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 2)), torch.arange(10)


def with_weight(value):
    module = net()
    with torch.no_grad():
        module[0].weight[0, 0] = value
    return module


@will("refused")
def m_nan():
    return with_weight(torch.nan), x()


@will("refused")
def m_inf():
    return with_weight(torch.inf), x()


@will("refused")
def m_all_nan():
    module = net()
    with torch.no_grad():
        for p in module.parameters():
            p.fill_(torch.nan)
    return module, x()


@will("either")
def m_huge_weights():
    module = net()
    with torch.no_grad():
        for p in module.parameters():
            p.mul_(1e30)
    return module, x()


@will("refused")
def m_nan_buffer():
    module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    module[1].running_var.fill_(torch.nan)
    return module, x()


@will("refused")
def m_zero_width():
    return nn.Sequential(nn.Linear(4, 0), nn.ReLU(), nn.Linear(0, 2)), x()


@will("refused")
def m_no_outputs():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 0)), x()


@will("refused")
def m_zero_inputs_wide():
    return nn.Sequential(nn.Linear(0, 8), nn.ReLU(), nn.Linear(8, 2)), torch.zeros(32, 0)


@will("either")
def m_one_unit():
    return nn.Sequential(nn.Linear(4, 1), nn.ReLU(), nn.Linear(1, 1)), x()


@will("refused")
def m_lazy():
    return nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(2)), x()


@will("diagnosed")
def m_lazy_run():
    module = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(2))
    module(x())
    return module, x()


@will("refused")
def m_frozen():
    return net().requires_grad_(False), x()


@will("refused")
def m_constant():
    module = net()
    module[2].weight.data.zero_()
    module[2].weight.requires_grad_(False)
    module[2].bias.requires_grad_(False)
    return module, x()


@will("refused")
def m_scripted():
    return torch.jit.script(net()), x()


@will("either")
def m_no_init():
    class Bad(nn.Module):
        def __init__(self):
            self.width = 3

    return Bad(), x()


@will("refused")
def m_half_init():
    return Body.__new__(Body), x()


@will("refused")
def m_uncopyable():
    class Locked(Body):
        def __init__(self):
            super().__init__()
            self.file = open(__file__)  # noqa: SIM115

    return Locked(), x()


@will("refused")
def m_container():
    return nn.ModuleList([nn.Linear(4, 2)]), x()


@will("refused")
def m_dict_container():
    return nn.ModuleDict({"a": nn.Linear(4, 2)}), x()


@will("refused")
def m_empty_sequential():
    return nn.Sequential(), x()


@will("refused")
def m_wrong_widths():
    return nn.Sequential(nn.Linear(4, 8), nn.Linear(9, 2)), x()


@will("refused")
def m_no_data():
    module = net()
    module[0].weight = nn.Parameter(torch.empty(0))
    return module, x()


@will("refused")
def m_parameters_lie():
    class Liar(Body):
        def named_parameters(self, *a, **k):
            raise RuntimeError("no parameters for you")

    return Liar(), x()


@will("refused")
def m_parameters_none():
    class Liar(Body):
        def parameters(self, *a, **k):
            return None

    return Liar(), x()


@will("either")
def m_state_dict_lies():
    class Liar(Body):
        def state_dict(self, *a, **k):
            return 3

    return Liar(), x()


@will("refused")
def m_eval_raises():
    class Liar(Body):
        @property
        def training(self):
            raise RuntimeError("no mode")

        @training.setter
        def training(self, value):
            pass

    return Liar(), x()


@will("refused")
def m_reset_raises():
    class Own(nn.Linear):
        made = False

        def reset_parameters(self):
            if self.made:
                raise KeyError("again")
            super().reset_parameters()
            self.made = True

    return nn.Sequential(Own(4, 8), nn.ReLU(), nn.Linear(8, 2)), x()


@will("refused")
def m_reset_exits():
    class Own(nn.Linear):
        made = False

        def reset_parameters(self):
            if self.made:
                raise SystemExit(0)
            super().reset_parameters()
            self.made = True

    return nn.Sequential(Own(4, 8), nn.ReLU(), nn.Linear(8, 2)), x()


@will("refused")
def m_reset_needs():
    class Own(nn.Linear):
        def reset_parameters(self, gain=None):
            if gain is None and hasattr(self, "done"):
                raise TypeError("needs a gain")
            super().reset_parameters()
            self.done = True

    return nn.Sequential(Own(4, 8), nn.ReLU(), nn.Linear(8, 2)), x()


@will("refused")
def m_copy_exits():
    class Own(Body):
        def __deepcopy__(self, memo):
            raise SystemExit(0)

    return Own(), x()


@will("refused")
def m_copy_none():
    class Own(Body):
        def __deepcopy__(self, memo):
            return None

    return Own(), x()


@will("refused")
def m_reset_nan():
    class Own(nn.Linear):
        def reset_parameters(self):
            super().reset_parameters()
            if hasattr(self, "done"):
                self.weight.data.fill_(torch.nan)
            self.done = True

    return nn.Sequential(Own(4, 8), nn.ReLU(), nn.Linear(8, 2)), x()


@will("refused")
def m_reset_stats_exits():
    class Own(nn.BatchNorm1d):
        def reset_running_stats(self):
            if hasattr(self, "done"):
                raise SystemExit(0)
            super().reset_running_stats()
            self.done = True

    return nn.Sequential(nn.Linear(4, 8), Own(8), nn.ReLU(), nn.Linear(8, 2)), x()


# -- forwards ---------------------------------------------------------------------------------------------------------


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


# -- inputs -----------------------------------------------------------------------------------------------------------

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


# -- third values -----------------------------------------------------------------------------------------------------


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
