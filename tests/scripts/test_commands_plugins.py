"""Runs with plug-ins are trained, killed, resumed, compared and reported, and broken plug-ins are refused."""

import json
import runpy
import shutil
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch._dynamo  # noqa: F401

from supple.engine.spec import read_spec
from supple.engine.storage import files
from tests.processes import die_when, ended

pytestmark = pytest.mark.slow

SMALL = runpy.run_path(str(Path(__file__).parents[2] / "tests" / "stress" / "small_runs.py"))
PARTS = """
import gymnasium as gym
import torch
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from supple.envs import Shift, shifts
from supple.interventions import Reinitialization, interventions
from supple.metrics import Metric, metrics


@interventions.register("halve")
class Halve(Reinitialization):
    '''Halve the weights of the scope.'''

    def __init__(self, scope="all", contract="uniform") -> None:
        super().__init__(scope, contract)

    @torch.no_grad()
    def rewrite(self, module, learner, start, scope):
        names = learner.parameters_of(learner.select(scope))
        for name in names:
            module.get_parameter(name).mul_(0.5)
        return names


@shifts.register("poorer")
class Poorer(Shift):
    '''Halve the reward.'''

    def neutral(self, env):
        return {"factor": 1.0}

    def draw(self, env, random, previous):
        return {"factor": 0.5}

    def set(self, env, values):
        self.factor = values["factor"]

    def reward(self, reward, info):
        return self.factor * reward


class Pole(CartPoleEnv):
    '''CartPole by another name.'''


def count(view):
    return torch.tensor([float(len(list(view.learner.module.parameters())))])


metrics.register("tensors")(Metric("number of parameters", "weights", count))
gym.register("Pole-v0", entry_point=Pole, max_episode_steps=50)
"""
AGENT = """
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from supple.agents.settings import AgentSettings
from supple.agents.work import AgentWork
from supple.envs import Vector, make_env
from supple.engine.kinds import Kind, add
from supple.engine.storage.learner_state import learner_state, load_learner_state
from supple.engine.seeding import generator
from supple.interventions import learner_for


@dataclass(kw_only=True)
class DiceSettings(AgentSettings):
    faces: int = 2


class Dice:
    '''An agent that throws dice, and has a network that it does not ask.'''

    def __init__(self, settings):
        torch.manual_seed(settings.seed)
        self.faces, self.draws = settings.faces, generator(settings.seed, "dice")
        network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        self.learners = {"network": learner_for(network)}

    def begin_task(self, env): ...
    def begin_episodes(self, observations): self.count = len(observations)
    def act(self): return torch.randint(self.faces, (self.count,), generator=self.draws).numpy()
    def remember(self, result): ...
    def update(self, hooks, last): return True
    def numbers(self): return {}

    @contextmanager
    def greedy(self, env):
        yield lambda observations: np.zeros(len(observations), dtype=int)

    def state_dict(self):
        return {"draws": self.draws.get_state(), "network": learner_state(self.learners["network"])}

    def load_state_dict(self, state):
        self.draws.set_state(state["draws"])
        load_learner_state(self.learners["network"], state["network"])


class DiceWork(AgentWork):
    def space(self, env): return ()
    def new_agent(self, settings, spaces): return Dice(settings)

    @staticmethod
    def envs(settings, env, worlds): return Vector([lambda w=w: make_env(env, **w) for w in worlds])


add(
    Kind(
        "dice", "an agent that throws dice", settings="dice:DiceSettings", build="dice:DiceWork",
        report="supple.agents.report:AGENTS", unit="environment steps", fork_at=0.5,
    )
)
"""
DICE = "train dice --env Pole-v0 --cycles 2 --steps-per-task 1024 --num-envs 4 --eval-episodes 1 --checkpoint-every 256"
PPO = "train ppo --env parts:Pole-v0 --steps 256 --num-envs 4 --rollout-steps 32 --epochs 1 --hidden 8 --env-workers 1"
LINEAR = "--tasks semantic,reversal --updates-per-task 60"
Ask = Callable[..., tuple[int, str]]


@pytest.fixture
def ask(ask_process: Ask) -> Ask:
    """Return `ask(words)`: the exit status and stderr of `supple` in a folder with the plug-ins."""
    Path("parts.py").write_text(PARTS)
    Path("dice.py").write_text(AGENT)
    return ask_process


def lines(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def test_a_run_with_plug_ins_is_killed_and_resumed_to_the_same_bytes(
    ask: Ask, process: Callable[[Sequence[str], Path], int]
) -> None:
    command, named = f"{DICE} --shift poorer --hook halve@task", "--plugin parts.py --plugin dice.py"
    assert ask(f"{command} {named} --out whole")[0] == 0, Path("errors").read_text()
    words = f"{command} {named} --out killed".split()
    child = process(words, Path("errors"), partial(die_when, lambda: list(Path("killed").glob("checkpoints/0*"))))
    assert ended(child) == -signal.SIGKILL, Path("errors").read_text()
    assert ask("resume killed")[0] == 2
    assert ask(f"resume killed {named}")[0] == 0, Path("errors").read_text()
    assert SMALL["logs"](Path("killed")) == SMALL["logs"](Path("whole"))
    assert any(name.endswith("/tensors") for line in lines("whole/metrics.jsonl") for name in line)
    shares = {(line["task"], line["return"] / line["length"]) for line in lines("whole/episodes.jsonl")}
    assert shares == {(0, 1.0), (1, 0.5)}
    events = lines("whole/events.jsonl")
    assert [line["hook"] for line in events if line["event"] == "intervention"] == ["halve@task"]


def test_workers_and_reports_of_a_comparison_load_its_plug_ins(ask: Ask) -> None:
    named = "--plugin parts.py --plugin dice.py"
    words = "compare dice --env Pole-v0 --steps 1024 --num-envs 4 --eval-episodes 1 --arm none --arm halve --jobs 2"
    assert ask(f"{words} {named} --out both")[0] == 0, Path("errors").read_text()
    applied = [line for line in lines("both/seed-0/halve/events.jsonl") if line["event"] == "intervention"]
    assert len(applied) == 1
    code, said = ask("resume both")
    assert (code, said.count("\n")) == (2, 1)
    assert "both was started with a plug-in that must be named again: add --plugin parts.py --plugin dice.py" in said
    code, said = ask("report both")
    assert (code, said.count("\n")) == (2, 1)
    assert "add --plugin parts.py --plugin dice.py" in said
    assert "halve" in Path("both/report/scores.json").read_text()


def test_resuming_with_other_plug_ins_names_them(ask: Ask) -> None:
    assert ask(f"train linear {LINEAR} --hook halve@task --plugin parts.py --out run")[0] == 0
    recorded = read_spec(Path("run")).resolved.plugins
    assert recorded == {"parts.py": files.sha256(PARTS.encode())}
    before = SMALL["logs"](Path("run"))
    Path("elsewhere").mkdir()
    Path("elsewhere/parts.py").write_text(PARTS + "\n")
    for words, complaint in {
        "resume run": "must be named again: add --plugin parts.py",
        "doctor run": "must be named again: add --plugin parts.py",
        "resume run --plugin dice.py": "must be named again: add --plugin parts.py",
        "resume run --plugin parts.py --plugin dice.py": "was started without --plugin dice.py",
        "resume run --plugin elsewhere/parts.py": f", but was {recorded['parts.py'][:12]}…; restore that version",
    }.items():
        code, said = ask(words)
        assert (code, said.count("\n")) == (2, 1)
        assert complaint in said
    Path("elsewhere/parts.py").write_text(PARTS)
    shutil.rmtree(max(Path("run/checkpoints").iterdir()))
    assert ask("resume run --plugin elsewhere/parts.py")[0] == 0
    assert SMALL["logs"](Path("run")) == before


def test_a_network_of_ones_own_is_recorded_and_resumed_like_a_plug_in(ask: Ask) -> None:
    code = "from torch import nn\n\ndef make_body(inputs):\n    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU())\n"
    Path("net.py").write_text(code)
    words = "--env CartPole-v1 --steps 256 --num-envs 4 --rollout-steps 32 --epochs 1 --hidden 8 --seeds 0 1"
    assert ask(f"compare ppo {words} --encoder net.py:make_body --arm none --out both")[0] == 0, Path(
        "errors"
    ).read_text()
    assert read_spec(Path("both/seed-1/none")).resolved.plugins == {"net.py:make_body": files.sha256(code.encode())}
    assert "add --plugin net.py:make_body, " in ask("resume both")[1]
    Path("net.py").write_text(f"{code}\n")
    assert "net.py:make_body is not the net.py:make_body that" in ask("resume both --plugin net.py:make_body")[1]
    assert ask("check net.py:make_body") == (0, "")
    assert "it does not define make" in ask(f"train ppo {words} --encoder net.py:make --out one")[1]


def test_doctor_tries_an_intervention_of_a_plug_in_that_the_run_did_not_load(ask: Ask) -> None:
    assert ask(f"train linear {LINEAR} --out run")[0] == 0
    assert ask("doctor run --plugin parts.py --try halve --updates 5")[0] == 0, Path("errors").read_text()


MINE = "\nclass Mine(Intervention): ..."
BEGIN = "from supple.interventions import Intervention, interventions\n@interventions.register"
METRIC = "from supple.metrics import metrics\n@metrics.register('share')\ndef share(view): ..."
BROKEN = {
    "x = 1": "it registers nothing",
    f"{BEGIN}('my method'){MINE}": "'my method' cannot be typed",
    METRIC: "the metric 'share' should be of type Metric: register Metric('what it is', 'weights', share)",
    "import gymnasium; gymnasium.register('CartPole-v1', entry_point='a:B')": "replaces the environment",
}


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_plug_in_is_refused_in_one_line_and_nothing_is_written(code: str, ask: Ask) -> None:
    Path("mine.py").write_text(code)
    status, said = ask(f"train linear {LINEAR} --plugin parts.py --plugin mine.py --out out")
    assert status == 2
    assert said.splitlines()[-1].startswith("supple: --plugin mine.py: ")
    assert BROKEN[code] in said
    assert sorted(path.name for path in Path().iterdir()) == ["dice.py", "errors", "mine.py", "parts.py"]


@pytest.mark.parametrize("code", ["raise OSError('no luck')", "x = 1\ndef (", f"{BEGIN}('fire'){MINE}"])
def test_a_plug_in_that_cannot_be_imported_is_named_before_its_traceback(code: str, ask: Ask) -> None:
    Path("mine.py").write_text(code)
    status, said = ask(f"train linear {LINEAR} --plugin mine.py --out out")
    first, second = said.splitlines()[:2]
    assert (status, second) == (1, "Traceback (most recent call last):")
    assert first.startswith(f"supple: importing {Path('mine.py').absolute()}: ")
    assert "mine.py" in said.partition("Traceback")[2]
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    {
        "--plugin there_is_none.py": "No such file",
        "--plugin there_is_none": "there is no package with this name here",
        "--plugin os": "os is no plug-in",
        "--plugin my-method.py": "'my-method' cannot be imported",
        "--plugin random.py": "a module 'random' already exists",
        "--plugin parts.py --plugin parts.py": "a plug-in with this name is given twice",
    }.items(),
)
def test_what_is_not_a_plug_in_is_refused_in_one_line(words: str, complaint: str, ask: Ask) -> None:
    for name in ("my-method.py", "random.py"):
        Path(name).write_text(PARTS)
    code, said = ask(f"train ppo {words} --steps 64 --out out")
    assert (code, said.count("\n")) == (2, 1)
    assert complaint in said
    assert not Path("out").exists()


def test_an_environment_named_with_its_module_loads_it_as_a_plug_in(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path.cwd()))
    assert ask(f"{PPO} --out run")[0] == 0, Path("errors").read_text()
    found = read_spec(Path("run")).resolved
    assert (found.tasks[0]["env"], [*found.plugins]) == ("Pole-v0", ["parts"])
    code, said = ask("resume run")
    assert (code, said.count("\n")) == (2, 1)
    assert "must be named again: add --plugin parts, " in said
    assert ask("resume run --plugin parts")[0] == 0
