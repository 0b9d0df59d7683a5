"""Interventions that cannot work on a learner refuse it at the start, in one line."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn, optim

from supple.interventions import EndlessData, Injectable, Learner, ReleasedCode, Units, learner_for, make, parse_call
from tests.interventions.common import refused

DQN = (ReleasedCode("dqn"),)


def plain(*parts: nn.Module, optimizer: type[optim.Optimizer] | None = optim.Adam, **options: Any) -> Learner:
    module = nn.Sequential(*parts or (nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)))
    return learner_for(module, optimizer and optimizer(module.parameters()), **options)


def frozen() -> Learner:
    learner = plain()
    learner.module.requires_grad_(False)
    return learner


def shallow() -> Learner:
    return plain(nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("fire(method=polr)", "unknown method 'polr': did you mean 'polar'"),
        ("fire(contract=as_relased)", "did you mean 'as_released'"),
        ("reset(what=layer)", "what=layer and layer=NAME"),
        ("reset(what=head,count=2)", "count=2 needs what=last, got what=head"),
        ("reset(what=optimizer,toward=fresh)", "writes no parameter"),
        ("nap(normalize=false,project=false)", "nap: it does nothing"),
        ("swap(activation=swiglu)", "swap: swiglu changes the number of features"),
        ("swap(activation=leaky_reluu)", "did you mean 'leaky_relu'"),
        ("swap(activation='elu(beta=1)')", "elu has no parameter 'beta'"),
    ],
)
def test_settings_that_cannot_work_are_refused_when_it_is_made(call, words):
    parsed = parse_call(call)
    with refused(words):
        make(parsed.name, **parsed.params)


REFUSED: list[tuple[str, Callable[[], Learner], str]] = [
    *((name, shallow, "'model' has no hidden units") for name in ("l2_er", "nap", "redo", "cbp", "snr")),
    *((name, frozen, "no layer .*is trained") for name in ("spectral", "parseval", "adamo")),
    ("adamo", lambda: plain(optimizer=None), "has no optimizer"),
    ("redo", lambda: plain(nn.Linear(4, 8), nn.GLU(), nn.Linear(4, 2), units=("1",)),
     r"no private units: '1' \(GLU\) has not one unit for each output of '0'"),
    ("redo", lambda: plain(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=2)), "is a grouped convolution"),
    ("redo", lambda: plain(nn.Conv2d(1, 4, 3), nn.LayerNorm(4), nn.ReLU(), nn.Conv2d(4, 1, 3)),
     "'2' has no rows and columns of its own in the layers around it"),
    ("swap(activation=elu)", shallow, "'model' has no hidden units"),
    ("swap(activation=elu)", lambda: plain(nn.Linear(4, 4), Units("crelu")(8), nn.Linear(8, 2)), "CReLU changes"),
    *((f"{name}(scope=head)", frozen, "frozen") for name in ("snp", "fire")),
    ("reset(what=head)", frozen, "all parameters of head of 'model' are frozen"),
    ("reset(what=layer,layer=body)", plain, r"has no layer 'body' \(layers: 0, 2, 4\)"),
    ("reset(what=conv)", plain, "scope 'conv' names no layer of 'model'"),
    ("fire(scope=[head,cnov])", plain, "unknown scope 'cnov': did you mean 'conv'"),
    ("fire(scope=head,contract=as_released)", lambda: plain(capabilities=DQN), "requires scope=conv"),
    *((f"{name}(contract=as_released)", plain, f"no released code applies {name} here")
      for name in ("fire", "snp", "reset", "redo", "injection")),
    *((name, lambda: plain(optimizer=None), "'model' has no optimizer")
      for name in ("upgd", "muon", "reset(what=optimizer)")),
    *((name, lambda: plain(optimizer=optim.SGD), f"{name}: 'model' has SGD") for name in ("muon", "adam_rel")),
    ("muon", shallow, "no Linear or Conv layer between"),
    ("injection", plain, "'model' has no part to duplicate"),
    ("injection", lambda: plain(capabilities=(Injectable("mpl"),)), "'model' has no module 'mpl'"),
    *((name, plain, f"{name}: 'model' .* Learner.batches") for name in ("dash", "ewc")),
    ("dash", lambda: plain(capabilities=(EndlessData(),), batches=iter), "learns from a replay memory.*batches=100"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "build", "words"), REFUSED)
def test_a_learner_that_it_cannot_act_on_is_refused_at_attach(call, build, words):
    parsed = parse_call(call)
    intervention = make(parsed.name, **parsed.params)
    with refused(words):
        intervention.attach(build())


@pytest.mark.parametrize("name", ["redo", "regrama"])
def test_without_recent_inputs_units_are_not_scored(name):
    with refused(f"{name} needs recent inputs, but 'model' has none"):
        make(name).apply(plain())
