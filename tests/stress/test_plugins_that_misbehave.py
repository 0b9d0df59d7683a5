"""Plug-ins that misbehave: whatever they do, the command exits 1 (2 where it is refused at the start) and says in one
line which plug-in, what of it, and at which step; and the run goes on with a plug-in that does better.

    pytest -s tests/stress/test_plugins_that_misbehave.py

`make test` leaves this folder out. Each plug-in does its wrong only while the variable WRONG is set.
"""

import itertools
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from supple.engine.storage.signed_json import read_json
from supple.registry.errors import RunError
from supple.scripts.cli.console import run
from supple.scripts.main import dispatch

Process = Callable[[Sequence[str], Path], int]

HEAD = """
import os, signal, sys, threading, warnings
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from supple.interventions import Intervention, interventions

WRONG = bool(os.environ.get("WRONG"))

class Own(BaseException): ...

class Mute(Exception):
    def __str__(self): raise SystemExit(0)

class Number(Exception):
    def __str__(self): return 3

def deep(n): return deep(n + 1)

def throw(error):
    raise error
"""
LINEAR = (
    "linear --tasks semantic,reversal --updates-per-task 60 --checkpoint-every 30 --measure-every 20 --plugin bad.py "
)
PPO = (
    "ppo --env CartPole-v1 --cycles 2 --steps-per-task 128 --num-envs 2 --rollout-steps 32 --minibatch-size 64 "
    "--epochs 1 --hidden 8 --eval-episodes 0 --measure-every 64 --checkpoint-every 64 --compile off --plugin bad.py "
)

# What code may do at any place: an expression.
ACTS = {
    "exits with 0": "sys.exit(0)",
    "exits with a text": "sys.exit('bye')",
    "interrupts itself": "throw(KeyboardInterrupt())",
    "ends as a generator": "throw(GeneratorExit())",
    "raises an exception of its own": "throw(Own('own'))",
    "recurs forever": "deep(0)",
    "runs out of memory": "throw(MemoryError())",
    "stops an iteration": "next(iter(()))",
    "cannot say why": "throw(Mute())",
    "says a number": "throw(Number())",
    "says several lines": "throw(KeyError('a\\nb\\r\\x1b[31mred\\u202e'))",
    "says a megabyte": "throw(ValueError('x' * 1_000_000))",
    "says a lone surrogate": "throw(RuntimeError('\\udcff'))",
    "warns as an error": "(warnings.simplefilter('error'), warnings.warn('w'))",
    "has no disk": "throw(OSError(28, 'No space left on device', '/x'))",
    "breaks a pipe": "throw(BrokenPipeError())",
    "raises an error of supple": "throw(__import__('supple.registry.errors', fromlist='x').UsageError('mine'))",
    "goes elsewhere": "os.chdir('/')",
    "closes its output": "(sys.stdout.close(), sys.stderr.close())",
    "hides its output": "setattr(sys, 'stderr', None)",
    "ignores SIGTERM": "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "takes SIGINT": "signal.signal(signal.SIGINT, signal.default_int_handler)",
    "wants other numbers": "torch.set_default_dtype(torch.float64)",
    "turns gradients off": "torch.set_grad_enabled(False)",
    "takes threads": "torch.set_num_threads(3)",
    "turns warnings to errors": "warnings.simplefilter('error')",
}


MOMENTS = {  # the method, what it returns if nothing is wrong, the hook
    "attach": ("None", "bad@20"),
    "apply": ("[]", "bad@20"),
    "contract": ("{}", "bad@20"),
    "numbers": ("{}", "bad@20"),
    "state_dict": ("{}", "bad@20"),
    "finish_task": ("None", "bad@20"),
    "concerns": ("True", "bad@20"),
    "before_loss": ("None", "bad"),
    "penalty": ("torch.zeros(())", "bad"),
    "before_update": ("None", "bad"),
    "after_update": ("None", "bad"),
}
RESULTS = {  # what methods must not return
    "apply": ("None", "'w'", "[1]", "['nothing']", "torch.zeros(2)", "{}", "True"),
    "contract": ("None", "[]", "{1: 'a'}", "{'a': torch.zeros(())}", "'text'"),
    "numbers": ("None", "{'n': 1.0}", "{'n': torch.zeros(2, 2)}", "{1: torch.zeros(())}",
                "{'n': torch.zeros((), dtype=torch.cfloat)}"),
    "state_dict": (
        "None", "[]", "{'a': {1, 2}}", "{1: 2}", "{'a': lambda: 0}", "{'__tensor__': 'x'}", "{'a': np.array([None])}",
        "{'a': torch.zeros(2).to_sparse()}", "(lambda d: (d.update(d=d), d)[1])({})",
    ),
    "penalty": ("None", "0.0", "'1'", "torch.zeros(2)", "torch.zeros((), dtype=torch.cfloat)",
                "torch.zeros((), dtype=torch.int)"),
    "concerns": ("torch.zeros(2)", "np.zeros(2)"),
}  # fmt: skip
WRITES = {  # what `apply` must not do to a network
    "writes NaN": "next(learner.module.parameters()).data.fill_(float('nan'))",
    "writes infinity without a word": "next(learner.module.parameters()).data.fill_(float('inf'))",
    "deletes a parameter": "delattr(learner.module, next(learner.module.named_parameters())[0])",
    "reshapes a parameter": "setattr(next(learner.module.parameters()), 'data', torch.zeros(3))",
    "replaces a parameter": (
        "setattr(learner.module, n := next(learner.module.named_parameters())[0], "
        "nn.Parameter(getattr(learner.module, n).detach().clone()))"
    ),
    "freezes a parameter": "next(learner.module.parameters()).requires_grad_(False)",
    "replaces the module": "setattr(learner, 'module', nn.Linear(2, 2))",
    "removes the optimizer": "setattr(learner, 'optimizer', None)",
    "adds a buffer": "learner.module.register_buffer('more', torch.zeros(2))",
    "adds a layer": "learner.module.add_module('more', nn.Linear(2, 2))",
    "takes other numbers": "learner.module.float() if next(learner.module.parameters()).dtype == torch.double "
    "else learner.module.double()",
    "records no change": "learner.changes.append('junk(')",
    "records an unknown change": "learner.changes.append('nothing(a=1)')",
    "records a number as its change": "learner.changes.append(3)",
}
IDLE = {  # a method that would not run, whatever it is called for
    "is async": "async def {method}(self, *given): pass",
    "is a generator": "def {method}(self, *given): yield",
    "is an async generator": "async def {method}(self, *given): yield",
    "is None": "{method} = None",
    "is a property": "{method} = property(lambda self: 3)",
}
METRICS = (
    "None", "'a'", "torch.zeros(2)", "torch.zeros((), dtype=torch.cfloat)", "{}", "1.0", "np.zeros(1)",
    "torch.zeros(1, device='meta')",
)  # fmt: skip
COUNTS: Counter[str] = Counter()
HELD: Counter[str] = Counter()


def intervention(method: str, body: str, otherwise: str = "None", more: str = "") -> str:
    applied = "" if method in ("penalty", "before_loss", "before_update", "after_update") else (
        "\n    def apply(self, learner): return []" if method != "apply" else ""
    )  # fmt: skip
    also = {
        "before_loss": "\n    def penalty(self, learner): return torch.zeros(())",
        "before_update": "\n    def after_update(self, learner): pass",
    }.get(method, "")
    return f"""{HEAD}
@interventions.register("bad")
class Bad(Intervention):
    '''Do wrong.'''{applied}{also}{more}
    def {method}(self, *given):
        learner = given[0] if given else None
        if WRONG:
            {body}
        return {otherwise}
"""


class Attempts:
    def __init__(self, process: Process, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.process, self.folder, self.monkeypatch, self.made = process, folder, monkeypatch, 0

    def supple(self, words: str, wrong: bool = True) -> tuple[int, str]:
        self.monkeypatch.setenv("WRONG", "1" if wrong else "")
        child = self.process(words.split(), Path("errors"))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), Path("errors").read_text(errors="replace")

    def begin(self, code: str) -> None:
        self.made += 1
        own = self.folder / str(self.made)
        own.mkdir()
        os.chdir(own)
        Path("bad.py").write_text(code)

    def told(
        self, kind: str, what: str, words: str, *expected: str, codes: tuple[int, ...] = (1,), mute: bool = False
    ) -> None:
        """Run a command, which must fail in one line with these words; mute: the plug-in has closed the output."""
        COUNTS[kind] += 1
        code, said = self.supple(words)
        where = f"{kind}: {what}: `{words}`: exit {code}: {said[:1500]}"
        assert code in codes, where
        lines = said.splitlines()
        assert "Traceback" not in said, where
        assert len(lines) <= 1 if mute else len(lines) == 1, where
        if lines:
            assert len(lines[0]) < 2000, where
            assert lines[0].isprintable(), where
            for each in expected if any("Bad-v0" in each for each in expected) else (*expected, "bad.py"):
                assert re.search(each, lines[0]), f"{each!r} is not said: {where}"
        HELD[kind] += 1

    def goes_on(self, what: str) -> None:
        """The run that failed reaches its end with a plug-in that does better."""
        code, said = self.supple("resume out --plugin bad.py", wrong=False)
        assert code == 0, f"{what}: {said}"
        assert not Path("out/traceback.txt").exists()


@pytest.fixture(scope="module", autouse=True)
def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import here all that a command imports, so that not every process has to."""
    for words in (f"train {LINEAR}", f"train {PPO}"):
        out = tmp_path_factory.mktemp("first") / "out"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["supple", *words.replace("--plugin bad.py", "").split(), "--out", str(out)])
            with pytest.raises(SystemExit):
                run(dispatch)


@pytest.fixture
def attempts(process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attempts]:
    monkeypatch.chdir(tmp_path)
    yield Attempts(process, tmp_path, monkeypatch)
    print("".join(f"\n{kind}: {n} attempts, {HELD[kind]} held" for kind, n in COUNTS.items()), end="")
    COUNTS.clear()
    HELD.clear()


CLOSES = ("closes its output", "hides its output")


@pytest.mark.parametrize("method", MOMENTS)
def test_acts_of_an_interventions_methods_are_reported(attempts: Attempts, method: str) -> None:
    otherwise, hook = MOMENTS[method]
    for what, act in ACTS.items():
        attempts.begin(intervention(method, act, otherwise))
        early = method in ("attach", "contract", "numbers", "state_dict", "concerns")
        refused = method == "attach" and ("throw(ValueError" in act or "UsageError" in act)
        expected = ["bad"] if refused else [hook, method, *([] if early else [r"at step [\d,]+"])]
        words = f"train {LINEAR}--hook {hook} --out out"
        attempts.told(
            f"acts of {method}", what, words, *expected, codes=(1, 2) if refused else (1,), mute=what in CLOSES
        )
        if early:
            assert not Path("out").exists()
        else:
            assert Path("out/traceback.txt").is_file()
            attempts.goes_on(what)


@pytest.mark.parametrize("method", RESULTS)
def test_wrong_results_of_an_interventions_methods_are_reported(attempts: Attempts, method: str) -> None:
    hook = MOMENTS[method][1]
    for wrong in RESULTS[method]:
        attempts.begin(intervention(method, f"return {wrong}", MOMENTS[method][0]))
        step = [r"at step \d+"] if method in ("apply", "penalty") else []
        attempts.told(f"results of {method}", wrong, f"train {LINEAR}--hook {hook} --out out", hook, method, *step)
        if step:
            attempts.goes_on(wrong)


def test_what_apply_does_to_a_network_is_reported(attempts: Attempts) -> None:
    for what, act in WRITES.items():
        attempts.begin(intervention("apply", act, "[]"))
        attempts.told("writes of apply", what, f"train {LINEAR}--hook bad@20 --out out", "bad@20", "at step 20")
        attempts.goes_on(what)


UPDATED = {
    "writes NaN": "next(learner.module.parameters()).data.fill_(float('nan'))",
    "deletes a parameter": "delattr(learner.module, next(learner.module.named_parameters())[0])",
    "reshapes a parameter": "setattr(next(learner.module.parameters()), 'data', torch.zeros(3))",
    "removes the module": "setattr(learner, 'module', None)",
}


def test_methods_that_could_not_be_called_are_refused(attempts: Attempts) -> None:
    for method, (what, code) in itertools.product([*MOMENTS, "load_state_dict"], IDLE.items()):
        attempts.begin(intervention("apply", "pass", "[]") + f"    {code.format(method=method)}\n")
        attempts.told("idle methods", f"{method} {what}", f"train {LINEAR}--hook bad@20 --out out", method, codes=(2,))
        assert not Path("out").exists()


def test_what_an_update_does_to_a_network_is_reported(attempts: Attempts) -> None:
    for what, act in UPDATED.items():
        attempts.begin(intervention("after_update", act))
        attempts.told("writes of updates", what, f"train {LINEAR}--hook bad --out out", "bad", "step [0-9]+")
        attempts.goes_on(what)


def test_acts_of_a_constructor_are_reported(attempts: Attempts) -> None:
    for what, act in ACTS.items():
        attempts.begin(intervention("__init__", act))
        refused = "throw(ValueError" in act or "UsageError" in act
        expected = ("bad",) if refused else ("intervention bad", "making it")
        words, codes = f"train {LINEAR}--hook bad@20 --out out", (2,) if refused else (1,)
        attempts.told("acts of __init__", what, words, *expected, codes=codes, mute=what in CLOSES)
        assert not Path("out").exists()


def test_properties_that_raise_are_reported(attempts: Attempts) -> None:
    compiled = PPO.replace("--compile off", "")
    for name in ("at_start", "traceable"):
        for act in ("sys.exit(0)", "throw(KeyError('a'))"):
            more = f"\n    @property\n    def {name}(self): return WRONG and {act}"
            attempts.begin(intervention("penalty", "pass", "torch.zeros(())", more))
            attempts.told("properties", f"{name}: {act}", f"train {compiled}--hook bad --out out", "bad")
    for name in ("params", "name"):
        more = f"\n    {name} = property(lambda self: sys.exit(0))"
        attempts.begin(intervention("apply", "pass", "[]", more))
        attempts.told("properties", name, f"train {LINEAR}--hook bad@20 --out out", "bad")


def test_acts_when_a_run_resumes_are_reported(attempts: Attempts) -> None:
    begun = "return WRONG and sys.exit(0) or []"
    for what, act in ACTS.items():
        attempts.begin(
            intervention("load_state_dict", act).replace(
                "apply(self, learner): return []", f"apply(self, learner): {begun}"
            )
        )
        code, said = attempts.supple(f"train {LINEAR}--hook bad@100 --out out")
        assert code == 1
        assert "at step 100" in said
        words = "resume out --plugin bad.py"
        attempts.told("acts of load_state_dict", what, words, "bad@100", "load_state_dict", mute=what in CLOSES)
        attempts.goes_on(what)


METRIC = """{head}
from supple.metrics import Metric, metrics

def number(view):
    if WRONG:
        {body}
    return torch.zeros(view.networks)

metrics.register("bad")(Metric("bad", "weights", number))
"""


def test_acts_of_a_metric_are_reported(attempts: Attempts) -> None:
    for what, act in {**ACTS, **{f"returns {wrong}": f"return {wrong}" for wrong in METRICS}}.items():
        attempts.begin(METRIC.format(head=HEAD, body=act))
        attempts.told("metrics", what, f"train {LINEAR}--out out", "metric bad", "at step 20", mute=what in CLOSES)
        attempts.goes_on(what)


ACTIVATION = """{head}
from supple.interventions import activation_registry

class Bad(nn.Module):
    '''Do wrong.'''
    def __init__(self):
        super().__init__()
        if WRONG: {made}
    def forward(self, x):
        if WRONG and x.requires_grad: {body}
        return torch.relu(x)
    def __new__(cls, *given):
        if WRONG: {new}
        return super().__new__(cls)

activation_registry.register("bad")(Bad)
"""


def test_acts_of_an_activation_are_reported(attempts: Attempts) -> None:
    def trial(
        what: str, *expected: str, body: str = "pass", made: str = "pass", new: str = "pass", goes_on: bool = False
    ) -> None:
        attempts.begin(ACTIVATION.format(head=HEAD, body=body, made=made, new=new))
        attempts.told("activations", what, f"train {PPO}--activation bad --out out", "activation bad", *expected)
        if goes_on:
            attempts.goes_on(what)

    for what, act in ACTS.items():
        if "throw" in act or "exit" in act or "deep" in act:
            trial(what, "forward", "at step", body=act, goes_on=True)
    for wrong in ("None", "'a'", "x[:, :1]", "x.detach().numpy()", "torch.zeros(())"):
        trial(wrong, "at step", body=f"return {wrong}", goes_on=True)
    for what in ("exits with 0", "cannot say why", "goes elsewhere", "wants other numbers"):
        trial(what, "making it", made=ACTS[what])
    for wrong in ("return None", "return nn.ReLU", "return 'relu'"):
        trial(wrong, "making it must return", new=wrong)


SHIFT = """{head}
from supple.envs import Shift, shifts

@shifts.register("bad")
class Bad(Shift):
    '''Do wrong.'''
    def {method}(self, *given, **more):
        if WRONG: {body}
        return super().{method}(*given, **more)
"""
SHIFTS = {"draw": "return None", "neutral": "return [1]", "reward": "return 'a'", "space": "return 3"}


def test_acts_of_a_shift_are_reported(attempts: Attempts) -> None:
    others = ("check", "set", "begin_episode", "observation", "action", "__init__")
    for method in (*SHIFTS, *others):
        acts = [ACTS[what] for what in ("exits with 0", "cannot say why", "interrupts itself", "goes elsewhere")]
        for act in [*acts, *filter(None, [SHIFTS.get(method)])]:
            attempts.begin(SHIFT.format(head=HEAD, method=method, body=act))
            made = "making it" if method == "__init__" else method
            attempts.told("shifts", f"{method}: {act}", f"train {PPO}--shift bad --out out", "shift bad", made)


ENVIRONMENT = """{head}
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

class Bad(CartPoleEnv):
    def {method}(self, *given, **more):
        if WRONG: {body}
        return super().{method}(*given, **more)

gym.register("Bad-v0", entry_point=Bad, max_episode_steps=50)
"""


def test_acts_of_an_environment_are_reported(attempts: Attempts) -> None:
    acts = (
        "exits with 0",
        "cannot say why",
        "interrupts itself",
        "raises an exception of its own",
        "says several lines",
    )
    for method in ("step", "reset", "close", "__init__"):
        for what in acts:
            attempts.begin(ENVIRONMENT.format(head=HEAD, method=method, body=ACTS[what]))
            words = f"train {PPO.replace('CartPole-v1', 'Bad-v0')}--out out"
            attempts.told("environments", f"{method}: {what}", words, "Bad-v0")


CHANGES = (
    "goes elsewhere", "closes its output", "hides its output", "ignores SIGTERM", "takes SIGINT", "takes threads",
    "wants other numbers", "turns gradients off", "turns warnings to errors",
)  # fmt: skip


@pytest.mark.parametrize("what", sorted(set(ACTS) - set(CHANGES)))
def test_acts_at_the_import_are_refused(attempts: Attempts, what: str) -> None:
    attempts.begin(f"{HEAD}\nif WRONG: {ACTS[what]}\n" + intervention("apply", "pass", "[]"))
    attempts.told("imports", what, f"train {LINEAR}--out out", codes=(2,), mute=what in CLOSES)
    assert not Path("out").exists()


@pytest.mark.parametrize("what", CHANGES)
def test_changes_at_the_import_are_put_back(attempts: Attempts, what: str) -> None:
    COUNTS["imports"] += 1
    attempts.begin(f"{HEAD}\nif WRONG: {ACTS[what]}\n" + intervention("apply", "pass", "[]"))
    code, said = attempts.supple(f"train {LINEAR}--hook bad@20 --out out")
    assert code == 0, said
    assert what in CLOSES or "warnings" in what or re.fullmatch(r"supple: plug-in bad: .* put back\n", said), said
    HELD["imports"] += 1


WORK = """{head}
from supple.engine.kinds import Kind, Preset, add
from supple.tracks.linear.work import LinearWork

class BadWork(LinearWork):
    def {method}(self, *given, **more):
        if WRONG: {body}
        return super().{method}(*given, **more)

def build(settings):
    return BadWork(settings)

add(
    Kind(
        "bad", "a bad kind", settings="supple.tracks.linear.settings:LinearSettings", build="bad:build",
        report="supple.tracks.linear.report:LINEAR",
    )
)
"""
WORKS = {  # a method of a kind's work, and what it must not return
    "advance": ("'a'", "None"),
    "numbers": ("None", "{'a': {1}}"),
    "evaluate": ("None", "3"),
    "measure": ("None", "[{}, {}]"),
    "finish": ("None",),
    "state": ("None", "{1: 2}"),
    "evaluation_due": (),
    "begin_segment": (),
    "enter": (),
    "check": (),
}


def test_acts_of_a_kind_of_run_are_reported(attempts: Attempts) -> None:
    run = f"train {LINEAR.replace('linear ', 'bad ', 1)}--out out"
    for method, results in WORKS.items():
        acts = [ACTS[what] for what in ("exits with 0", "cannot say why", "interrupts itself", "has no disk")]
        for act in [*acts, *(f"return {wrong}" for wrong in results)]:
            attempts.begin(WORK.format(head=HEAD, method=method, body=act))
            attempts.told("kinds of runs", f"{method}: {act}", run, "kind of run bad", "at step|__init__|making")


PRESETS = {
    "of no kind": 'Preset("bad", "bad", "there-is-none")',
    "with an unknown setting": 'Preset("bad", "bad", "linear", {"nonsense": 1})',
    "with a setting of another type": 'Preset("bad", "bad", "linear", {"updates_per_task": "many"})',
    "with settings that are none": 'Preset("bad", "bad", "linear", 3)',
    "with arms that are none": 'Preset("bad", "bad", "linear", arms=3)',
    "with seeds that are none": 'Preset("bad", "bad", "linear", seeds="a")',
    "with a fork that is none": 'Preset("bad", "bad", "linear", fork_at="a")',
    "without words": 'Preset("bad", None, "linear")',
}


def test_wrong_presets_are_refused(attempts: Attempts) -> None:
    for what, row in PRESETS.items():
        attempts.begin(f"{HEAD}\nfrom supple.engine.kinds import Preset, add\nadd({row})\n")
        words = "compare linear --preset bad --plugin bad.py --seeds 0 --out out"
        attempts.told("presets", what, words, codes=(1, 2))
        assert not Path("out").exists()


def test_acts_in_a_comparison_are_recorded_and_the_other_arms_finish(
    attempts: Attempts, here: Callable[[], Any]
) -> None:
    for what, act in ACTS.items():
        attempts.begin(intervention("apply", act, "[]"))
        words = f"compare {LINEAR}--fork-at 0.5 --arm none --arm bad@100 --arm reset@100 --seeds 0 --out out"
        COUNTS["comparisons"] += 1
        with here():
            code, said = attempts.supple(words)
        assert code == 1, (what, said)
        assert "Traceback" not in said, (what, said)
        found = {file.parent.name: read_json(file, str(file)) for file in Path("out").glob("*/*/outcome.json")}
        assert {name: outcome["outcome"] for name, outcome in found.items()} == {
            "trunk": "finished", "none": "finished", "bad_100": "failed", "reset_100": "finished"
        }, (what, found, said)  # fmt: skip
        assert re.search("plug-in bad.py: hook bad@100 at step 100: apply", found["bad_100"]["reason"]), found
        assert "Traceback" in found["bad_100"]["traceback"], found
        HELD["comparisons"] += 1


def test_every_command_reports_a_misbehaving_plug_in(attempts: Attempts) -> None:
    for what, act in ACTS.items():
        mute = what in CLOSES
        attempts.begin(intervention("apply", act, "[]"))
        attempts.told("check", what, "check bad.py", "promises? (is|are) not kept", mute=True)
        code, said = attempts.supple(f"train {LINEAR}--out run", wrong=False)
        assert code == 0, said
        attempts.told("doctor", what, "doctor run --plugin bad.py --try bad --updates 5", "bad", codes=(1,), mute=mute)


def test_lists_report_a_misbehaving_plug_in(attempts: Attempts) -> None:
    for what, act in ACTS.items():
        if "throw" in act or "exit" in act:
            more = f"\n    class Meta(type):\n        pass\n    __signature__ = property(lambda self: {act})"
            attempts.begin(intervention("apply", "pass", "[]", more))
            COUNTS["list"] += 1
            code, said = attempts.supple("list interventions --plugin bad.py")
            assert code in (0, 1), (what, said)
            assert "Traceback" not in said, (what, said)
            HELD["list"] += 1


def test_python_callers_get_the_same_line(attempts: Attempts) -> None:
    from supple.experiments import compare, train
    from supple.registry.errors import PluginFailed

    os.environ["WRONG"] = "1"
    settings = {"tasks": "semantic,reversal", "updates_per_task": 60, "checkpoint_every": 30}
    for number, (what, act) in enumerate(ACTS.items()):
        # here, KeyboardInterrupt may be the user's Ctrl-C, and pytest has turned warnings to errors already
        if what in (*CLOSES, "interrupts itself", "takes SIGINT", "turns warnings to errors"):
            continue
        COUNTS["Python"] += 1
        space: dict[str, Any] = {"__name__": "notebook"}
        exec(intervention("apply", act, "[]").replace('("bad")', f'("bad_{number}")'), space)
        with pytest.raises(
            PluginFailed, match=rf"plug-in notebook: hook bad_{number}@20 at step 20: apply on"
        ) as error:
            train("linear", settings, [f"bad_{number}@20"], out=f"run{number}", warn=lambda line: None)
        assert "\n" not in str(error.value)
        assert error.value.__cause__ is not None
        arms = ["none", f"bad_{number}@20"]
        with pytest.raises(RunError, match=rf"bad_{number}@20 at step 20: apply on"):
            compare("linear", settings, arms, out=f"both{number}", seeds=(0,), fork_at=0.0, warn=lambda line: None)
        HELD["Python"] += 1


SWEEP = """
[study]
kind = "linear"
arms = ["none", "bad@20"]
seeds = [0]
fork_at = 0.0
settings = { tasks = "semantic,reversal", updates_per_task = 30 }
"""


def test_acts_in_a_sweep_are_recorded_and_the_other_runs_finish(attempts: Attempts, here: Callable[[], Any]) -> None:
    for what in ("exits with 0", "cannot say why", "interrupts itself", "has no disk", "goes elsewhere"):
        attempts.begin(intervention("apply", ACTS[what], "[]"))
        Path("sweep.toml").write_text(SWEEP)
        COUNTS["sweeps"] += 1
        with here():
            code, said = attempts.supple("sweep sweep.toml --plugin bad.py --jobs 1 --out out")
        assert code == 1, (what, said)
        assert "Traceback" not in said, (what, said)
        found = {file.parent.name: read_json(file, str(file)) for file in Path("out").rglob("outcome.json")}
        assert {name: outcome["outcome"] for name, outcome in found.items()} == {"none": "finished", "bad_20": "failed"}
        assert "plug-in bad.py: hook bad@20 at step 20: apply" in found["bad_20"]["reason"], found
        HELD["sweeps"] += 1


def test_a_worker_ended_by_a_plug_in_is_recorded(attempts: Attempts) -> None:
    for status in (0, 3):
        attempts.begin(intervention("apply", f"os._exit({status})", "[]"))
        COUNTS["workers"] += 1
        words = f"compare {LINEAR}--fork-at 0 --arm none --arm bad@20 --seeds 0 --jobs 1 --out out"
        code, said = attempts.supple(words)
        assert code == 1, said
        found = {file.parent.name: read_json(file, str(file)) for file in Path("out").rglob("outcome.json")}
        assert found["none"]["outcome"] == "finished"
        assert (
            f"exit status {status} in the middle of the run, perhaps by os._exit in plug-in bad.py"
            in found["bad_20"]["reason"]
        )
        HELD["workers"] += 1
