from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import Learner, learner_for, make, redraw, snapshot

ETA, WINDOW = 0.15, 12


def learner() -> Learner:
    """A network whose units fire now and then; `updates` says on which two inputs it is looked at."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 7), nn.ReLU(), nn.Linear(7, 2))
    with torch.no_grad():
        for i in (0, 2):
            module[i].bias.sub_(torch.rand_like(module[i].bias))
    fresh = redraw(module, torch.Generator().manual_seed(1))
    target = learner_for(module, probe=lambda: (inputs(target.updates),), loss=lambda: torch.zeros(()))
    target.redraw, target.updates = lambda: fresh, 0
    return target


def inputs(update: int) -> Tensor:
    return torch.randn(2, 4, generator=torch.Generator().manual_seed(update))


def slow_snr(learner: Learner, updates: int) -> int:
    """Self-normalized resets on the plain network, unit by unit; returns how many there were."""
    layers, fresh = [learner.module[i] for i in (0, 2, 4)], learner.redraw()
    silent = [[0] * 8, [0] * 7]
    past: list[list[list[int]]] = [[[] for _ in range(8)], [[] for _ in range(7)]]
    resets = 0
    for update in range(updates):
        x, late = inputs(update), []
        for k, end in enumerate((2, 4)):
            h = learner.module[:end](x).detach()
            for i in range(h.shape[1]):
                if any(abs(float(value)) > 1e-3 for value in h[:, i]):
                    past[k][i] = [*past[k][i], silent[k][i]][-WINDOW:]
                    silent[k][i] = 0
                else:
                    silent[k][i] += 1
                history = [*past[k][i], WINDOW]
                if sum(a >= silent[k][i] for a in history) / len(history) <= ETA:
                    late.append((k, i))
        with torch.no_grad():
            for k, i in late:
                layers[k].weight[i], layers[k].bias[i] = fresh[f"{2 * k}.weight"][i], 0
                past[k][i], silent[k][i] = [], 0
            for k, i in late:
                layers[k + 1].weight[:, i] = 0
        resets += len(late)
    return resets


@pytest.mark.slow
def test_it_equals_a_plain_loop_over_units():
    fast, slow = learner(), learner()
    snr = make("snr", eta=ETA, window=WINDOW)
    snr.attach(fast)
    for fast.updates in range(200):
        snr.after_update(fast)
    assert snr.numbers(fast)["snr_replaced"] == slow_snr(slow, 200) > 10
    torch.testing.assert_close(snapshot(fast.module), snapshot(slow.module), rtol=0, atol=1e-6)


def count_resets(fires: list[bool], **params) -> list[int]:
    """Return how many resets there were after each update of a unit that fires at the given updates."""
    module = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
    fresh = {name: torch.ones_like(p) for name, p in module.named_parameters()}
    x = torch.zeros(1, 1)
    target = learner_for(module, probe=lambda: (x,), loss=lambda: torch.zeros(()))
    target = replace(target, redraw=lambda: fresh, initial=fresh)
    nn.init.ones_(module[0].weight)
    nn.init.zeros_(module[0].bias)
    snr, counts = make("snr", **params), []
    for fire in fires:
        x.fill_(2e-3 if fire else 9e-4)
        snr.after_update(target)
        counts.append(int(snr.numbers(target)["snr_replaced"]))
    return counts


RARE = [*[True, *[False] * 5] * 4, True]  # silences of 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fires", "params", "ends"),
    [
        # one silence among n + 1: 1/(n + 1) <= 0.1 from nine firings on
        ([True] * 8 + [False] * 3, {}, [0]),
        ([True] * 9 + [False] * 3, {}, [0] * 9 + [1] * 3),
        # silences as long as usual, and a longer one
        ([True, False, False] * 40 + [False] * 2, {}, [0, 1, 1]),
        # never fires: silent for longer than the window
        ([False] * 22, {"eta": 0.2, "window": 10}, [0] * 10 + [1] * 11 + [2]),
        # silences longer ago than the window are forgotten
        ([*RARE, *[True] * 12, False], {"window": 10}, [0, 1]),
        ([*RARE, *[True] * 6, False], {"window": 10}, [0]),
        # a reinitialised unit has no history
        ([True] * 9 + [False] + [True] * 8 + [False] * 4, {}, [1] * 13),
    ],
)
def test_a_unit_is_reset_when_its_silence_is_rarer_than_eta_among_those_in_the_window(fires, params, ends):
    assert count_resets(fires, **{"eta": 0.1, "window": 100} | params)[-len(ends) :] == ends
