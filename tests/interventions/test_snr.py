from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import Learner, learner_for, make, redraw, snapshot

ETA, WINDOW = 0.15, 12


def build() -> Learner:
    """A network whose units fire now and then; `updates` says on which two inputs it is looked at."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 7), nn.ReLU(), nn.Linear(7, 2))
    with torch.no_grad():
        for i in (0, 2):
            module[i].bias.sub_(torch.rand_like(module[i].bias))
    fresh = redraw(module, torch.Generator().manual_seed(1))
    learner = learner_for(module, probe=lambda: (inputs(learner.updates),), loss=lambda: torch.zeros(()))
    learner.redraw, learner.updates = lambda: fresh, 0
    return learner


def inputs(update: int) -> Tensor:
    return torch.randn(2, 4, generator=torch.Generator().manual_seed(update))


def pass_updates(learner: Learner, snr, updates: int) -> None:
    for _ in range(updates):
        snr.after_update(learner)
        learner.updates += 1


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
                layers[k].weight[i] = fresh[f"{2 * k}.weight"][i]
                layers[k].bias[i] = 0
                past[k][i], silent[k][i] = [], 0
            for k, i in late:
                layers[k + 1].weight[:, i] = 0
        resets += len(late)
    return resets


@pytest.mark.slow
def test_it_equals_a_plain_loop_over_units():
    fast, slow = build(), build()
    snr = make("snr", eta=ETA, window=WINDOW)
    snr.attach(fast)
    pass_updates(fast, snr, 200)
    resets = slow_snr(slow, 200)
    assert resets > 10
    assert snr.numbers(fast)["snr_replaced"] == resets
    for name, value in snapshot(slow.module).items():
        torch.testing.assert_close(snapshot(fast.module)[name], value, rtol=0, atol=1e-6)


def count_resets(fires: list[bool], **params) -> list[int]:
    """Return how many resets there were after each update of a unit that fires at the given updates."""
    module = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
    fresh = {name: torch.ones_like(p) for name, p in module.named_parameters()}
    x = torch.zeros(1, 1)
    learner = replace(
        learner_for(module, probe=lambda: (x,), loss=lambda: torch.zeros(())), redraw=lambda: fresh, initial=fresh
    )
    with torch.no_grad():
        module[0].weight.fill_(1)
        module[0].bias.fill_(0)
    snr, counts = make("snr", **params), []
    for fire in fires:
        x.fill_(2e-3 if fire else 9e-4)
        snr.after_update(learner)
        counts.append(int(snr.numbers(learner)["snr_replaced"]))
    return counts


def test_a_unit_that_fires_at_every_update_is_reset_once_its_silence_is_rarer_than_eta():
    # one silence among n + 1: 1/(n + 1) <= 0.1 from nine firings on
    assert count_resets([True] * 8 + [False] * 3, eta=0.1, window=100)[-1] == 0
    assert count_resets([True] * 9 + [False] * 3, eta=0.1, window=100) == [0] * 9 + [1] * 3


@pytest.mark.slow
def test_silences_as_long_as_usual_reset_no_unit():
    usual = [True, False, False] * 40
    assert count_resets(usual, eta=0.1, window=100)[-1] == 0
    assert count_resets([*usual, *[False] * 2], eta=0.1, window=100)[-2:] == [1, 1]


def test_a_unit_that_never_fires_is_reset_when_it_was_silent_for_longer_than_the_window():
    assert count_resets([False] * 22, eta=0.2, window=10) == [0] * 10 + [1] * 11 + [2]


def test_old_silences_are_forgotten():
    rare = [*[True, *[False] * 5] * 4, True]  # silences of 5, then none for longer than the window
    assert count_resets([*rare, *[True] * 12, False], eta=0.1, window=10)[-1] == 1
    assert count_resets([*rare, *[True] * 6, False], eta=0.1, window=10)[-1] == 0


def test_a_reinitialised_unit_has_no_history():
    fires = [True] * 9 + [False] + [True] * 8 + [False] * 4
    assert count_resets(fires, eta=0.1, window=100)[-1] == 1
