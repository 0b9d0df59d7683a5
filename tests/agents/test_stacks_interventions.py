"""What every intervention does to a member of a stack of agents is what it does to that agent alone."""

from collections.abc import Callable

import pytest

from supple.engine.hooks.event import Recorder
from supple.interventions import interventions, make
from tests.agents.dqn import test_agent_stack as dqn
from tests.agents.lives import Lives
from tests.agents.ppo import test_agent_stack as ppo
from tests.agents.sac import test_agent_stack as sac

pytestmark = pytest.mark.slow

ppo_in_float64, dqn_in_float64, sac_in_float64 = ppo.in_float64, dqn.in_float64, sac.in_float64
images_in_float64 = ppo.in_float64
PARAMETERS = {
    "cbp": {"replacement_rate": 0.05, "maturity": 2}, "dash": {"batches": 2}, "redo": {"tau": 0.9},
    "regrama": {"tau": 0.9}, "replay": {"keep": 0.5}, "snp": {"noise": 0.01}, "swap": {"activation": "rrelu"},
}  # fmt: skip
REFUSED = {  # on these networks, whatever the number of seeds
    "sib": {"ppo", "dqn", "sac", "images"}, "rebalance": {"dqn", "sac"}, "injection": {"ppo", "images"},
    "replay": {"ppo", "images"},
}  # fmt: skip
QUICK = {"rollout_steps": 4, "epochs": 1}  # two gradient steps an update
KINDS: dict[str, tuple[Callable[[], Lives], int]] = {  # networks with random activations, and decisions to make
    "ppo": (lambda: ppo.lives_of("rows", **QUICK), 8),
    "images": (lambda: ppo.lives_of("image", **QUICK), 8),
    "dqn": (lambda: dqn.lives_of("random", replay_ratio=0.5), 6),
    "sac": (lambda: sac.lives_of("random", replay_ratio=0.5), 6),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    request.getfixturevalue(f"{request.param}_in_float64")
    return str(request.param)


@pytest.fixture
def without_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what an event measures before and after, half the time; it is part of the tests of each algorithm."""
    monkeypatch.setattr(Recorder, "_measure", lambda recorder, view, hook: {})


@pytest.mark.parametrize("name", interventions.names())
def test_a_member_is_treated_as_alone(kind: str, name: str, without_measurements: None) -> None:
    """Those that meet a condition, and then all."""
    if kind in REFUSED.get(name, ()):
        pytest.skip(f"{name} does not fit the networks of {kind}")
    it, (new, decisions) = make(name, **PARAMETERS.get(name, {})), KINDS[kind]
    lives = new()
    if applied := it.has("apply") and not it.has("restructure"):
        lives.live(decisions, f"{it}@when:weight_norm>0.5", met=(0, 2))
        lives.compare(1e-8)
        assert {tuple(event["seeds"]) for event in lives.events} == {(0, 2)}
        lives.events.clear()
    lives.live(decisions, f"{it}@0.{5 if applied else 2}" if it.has("apply") else str(it))
    lives.compare(1e-8)
    assert bool(lives.events) == it.has("apply")
