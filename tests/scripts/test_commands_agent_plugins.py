"""A plug-in with an agent: its help, and what is said when the agent breaks a rule of the protocol."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch._dynamo  # noqa: F401

AGENT = """
import os
from contextlib import contextmanager
from dataclasses import dataclass

import gymnasium
import numpy as np
import torch
from torch import nn

from supple.agents.settings import AgentSettings
from supple.agents.spaces import only_space, row_space
from supple.agents.work import AgentWork
from supple.engine.kinds import Kind, add
from supple.engine.storage.learner_state import learner_state, load_learner_state
from supple.envs import Vector, make_env
from supple.interventions import learner_for
from supple.registry.errors import Diverged

WRONG = os.environ.get("WRONG", "")


def do(place, agent):
    return eval(WRONG.partition(":")[2]) if WRONG.startswith(place + ":") else None


def diverge():
    raise Diverged("the loss is not finite")


@dataclass(kw_only=True)
class StillSettings(AgentSettings):
    width: int = 2
    "Units of the network."


class Still:
    "An agent that does not move and does not learn."

    def __init__(self, settings, spaces):
        torch.manual_seed(settings.seed)
        self.network = nn.Linear(spaces[settings.env].observation, settings.width)
        self.network.register_buffer("mask", torch.tensor(-torch.inf))
        probe = lambda: (torch.ones(4, self.network.in_features),)
        self.learners = {"network": learner_for(self.network, probe=probe, loss=lambda: self.network.weight.sum())}

    def begin_task(self, env): ...
    def begin_episodes(self, observations): self.count = len(observations)

    def act(self):
        found = do("act", self)
        return np.zeros(self.count, int) if found is None else found

    def remember(self, result): do("remember", self)

    def update(self, hooks, last):
        return True if not WRONG.startswith("update:") else do("update", self)

    def numbers(self): return do("numbers", self) or {}

    @contextmanager
    def greedy(self, env):
        yield lambda observations: np.zeros(len(observations), int)

    def state_dict(self): return {"network": learner_state(self.learners["network"])}
    def load_state_dict(self, state): load_learner_state(self.learners["network"], state["network"])


class StillWork(AgentWork):
    def space(self, env): return row_space(env, "still", self.settings.kwargs, (gymnasium.spaces.Discrete,))
    def new_agent(self, settings, spaces): return Still(settings, spaces)

    @staticmethod
    def envs(settings, env, worlds): return Vector([lambda w=w: make_env(env, **w) for w in worlds])


add(
    Kind(
        "still", "an agent that does not move", settings="still:StillSettings", build="still:StillWork",
        report="supple.agents.report:AGENTS", unit="environment steps", fork_at=0.5,
    )
)
"""
RUN = "train still --plugin still.py --env CartPole-v1 --steps 64 --num-envs 2 --eval-episodes 0 --out out"
Ask = Callable[..., tuple[int, str]]


@pytest.fixture
def ask(ask_process: Ask) -> Ask:
    """Return `ask(words, wrong)`: the exit status and stderr of `supple` with an agent that does something wrong."""
    Path("still.py").write_text(AGENT)
    return ask_process


@pytest.mark.parametrize("command", ["train", "compare"])
@pytest.mark.parametrize("kind", ["still", "linear"])
def test_help_of_a_kind_with_a_plug_in_is_no_failure(ask: Ask, command: str, kind: str) -> None:
    assert ask(f"{command} {kind} --plugin still.py --help") == (0, "")


@pytest.mark.slow
def test_divergence_that_an_agent_reports_is_no_fault_of_its_plug_in(ask: Ask) -> None:
    code, said = ask(RUN, "numbers:diverge()")
    assert (code, said.count("\n")) == (1, 1), said
    assert "out (still, seed 0): training diverged by step 64: the loss is not finite; " in said


@pytest.mark.slow
def test_a_network_with_nan_is_divergence_and_no_fault_of_a_metric(ask: Ask) -> None:
    for words in ("--measure-every 64", "--measure-every 64 --checkpoint-every 16"):
        code, said = ask(f"{RUN} {words}", "remember:agent.network.weight.detach().fill_(np.nan)")
        assert (code, said.count("\n")) == (1, 1), said
        assert "training diverged by step" in said
        assert "a network of the agent is not finite; the first tensor that is not finite is weight of the n" in said
        shutil.rmtree("out")


@pytest.mark.slow
def test_an_agent_whose_network_holds_a_mask_of_minus_infinity_has_not_diverged(ask: Ask) -> None:
    assert ask(RUN) == (0, "")


@pytest.mark.slow
def test_an_update_that_is_never_complete_ends_the_run(ask: Ask) -> None:
    code, said = ask(RUN, "update:None")
    assert (code, said.count("\n")) == (1, 1), said
    assert "update of Still returned None at the last step of a task" in said


@pytest.mark.slow
def test_an_agent_that_does_not_count_its_updates_takes_no_hook_that_needs_them(ask: Ask) -> None:
    code, said = ask(f"{RUN} --hook fire@updates:9", "")
    assert (code, said) == (2, "supple: Still has no attribute 'updates', which @updates needs\n")


@pytest.mark.slow
def test_actions_of_a_wrong_shape_are_the_fault_of_the_agent(ask: Ask) -> None:
    assert ask(RUN, "act:np.zeros((2, 1), int)") == (1, "supple: act of Still returned shape (2, 1), not (2,)\n")
