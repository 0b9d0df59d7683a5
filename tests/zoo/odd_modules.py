"""Odd functions: the modules that they return."""

import torch
from torch import nn

from tests.zoo.odd import Body, net, will, with_weight, x


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
