"""A plug-in that fails ends the command with exit status 1 and one line: the file, the method and the step."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from supple.engine.storage.signed_json import read_json
from supple.experiments import train
from supple.registry.errors import PluginFailed
from supple.scripts.cli.console import run
from supple.scripts.main import dispatch

CODE = """
import os, sys, torch
from supple.interventions import Intervention, interventions
from supple.metrics import Metric, metrics

WRONG = os.environ.get("WRONG", "")

def act(place, self=None):
    if WRONG.startswith(place + ":"):
        return eval(WRONG.partition(":")[2])

@interventions.register("bad")
class Bad(Intervention):
    '''Do wrong.'''
    def __init__(self): act("__init__")
    def attach(self, learner): act("attach")
    def __str__(self): return act("__str__") or "bad"
    def apply(self, learner):
        self.learner = learner
        found = act("apply", self)
        return [] if found is None else found
    def after_update(self, learner): act("after_update")
    def contract(self, learner): return act("contract") or {}
    def state_dict(self): return act("state_dict") or {}
    def load_state_dict(self, state): act("load_state_dict")

metrics.register("number")(Metric("a number", "weights", lambda view: act("metric") or torch.zeros(view.networks)))
"""
RUN = "linear --tasks semantic,reversal --updates-per-task 30 --checkpoint-every 15 --measure-every 20 --plugin bad.py"
TOLD = {
    "apply:sys.exit(0)": "hook bad@20 at step 20: apply on 'model' raised SystemExit: 0 (line",
    "apply:'weight'": "hook bad@20 at step 20: apply on 'model' must return a list of the names of the parameters that "
    "it wrote, not 'weight'",
    "apply:torch.set_default_dtype(torch.half)": "hook bad@20 at step 20: apply on 'model' changed PyTorch's default "
    "dtype, which has been put back",
    "after_update:(_ for _ in ()).throw(KeyboardInterrupt)": "hook bad@20 at step 0: after_update on 'model' raised "
    "KeyboardInterrupt",
    "metric:sys.exit('a\\nb')": "metric number at step 20: its function raised SystemExit: a b",
    "metric:{1: 2}": "metric number at step 20: its function must return a tensor",
    "contract:[1]": "hook bad@20: contract on 'model' must return a dictionary from texts to texts, not [1]",
    "state_dict:{'a': {1, 2}}": "hook bad@20: state_dict raised TypeError: a checkpoint cannot hold set",
    "attach:sys.exit()": "hook bad@20: attach on 'model' raised SystemExit",
    "__init__:sys.exit()": "intervention bad: making it raised SystemExit",
    "__str__:sys.exit()": "hook bad@20: __str__ raised SystemExit",
    "apply:self.learner.module.register_buffer('more', torch.zeros(2))": "hook bad@20 at step 20: apply on 'model' "
    "changed more, but not in place",
    "apply:self.learner.changes.append('junk(')": "hook bad@20 at step 20: apply on 'model' recorded 'junk(' in "
    "learner.changes, which is no call of an intervention",
    "apply:object()": "hook bad@20 at step 20: apply on 'model' must return a list of the names of the parameters that "
    "it wrote, not a value of type object",
}
Ask = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module", autouse=True)
def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import here all that a command imports, so that not every process has to."""
    words = f"train {RUN.partition(' --plugin')[0]} --out {tmp_path_factory.mktemp('first') / 'out'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["supple", *words.split()])
        with pytest.raises(SystemExit):
            run(dispatch)


@pytest.fixture
def ask(process: Callable[[Sequence[str], Path], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return `ask(words, wrong)`: the exit status and stderr of `supple` with a plug-in that does something wrong."""
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text(CODE)

    def run_supple(words: str, wrong: str = "") -> tuple[int, str]:
        monkeypatch.setenv("WRONG", wrong)
        child = process(words.split(), Path("errors"))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), Path("errors").read_text()

    return run_supple


@pytest.mark.slow
@pytest.mark.parametrize("wrong", TOLD)
def test_the_error_names_the_plug_in_its_method_and_the_step(ask: Ask, wrong: str) -> None:
    code, said = ask(f"train {RUN} --hook bad@20 --out out", wrong)
    assert (code, said.count("\n")) == (1, 1), said
    assert said.startswith(f"supple: plug-in bad.py: {TOLD[wrong]}"), said
    assert Path("out").exists() == Path("out/traceback.txt").exists() == ("at step" in said)


ENDS = {
    "apply:os.fork() and None": "plug-in bad.py: hook bad@20: apply on 'model' forked; the new process ends here",
    "apply:setattr(sys, 'exit', print)": "",
    "apply:__import__('threading').Thread(target=lambda: 1 / 0, name='mine').start()": "mine ended: ZeroDivisionError: "
    "division by zero",
    "apply:type('Odd', (), {'__del__': lambda self: 1 / 0})() and None": "an exception in <lambda> was ignored: "
    "ZeroDivisionError: division by zero",
}


@pytest.mark.slow
@pytest.mark.parametrize("act", ENDS)
def test_a_run_finishes_although_a_plug_in_fails_beside_it(ask: Ask, act: str) -> None:
    assert ask(f"train {RUN} --hook bad@20 --out out", act) == (0, ENDS[act] and f"supple: {ENDS[act]}\n")
    assert max(Path("out/checkpoints").iterdir()).name == f"{60:012}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("own", "why"),
    {
        "async def apply(self, learner): return []": "apply is declared by `async def`",
        "def apply(self, learner): yield 'w'": "apply has `yield` in it",
        "apply = None": "apply must be a method, not None",
        "async def state_dict(self): return {}\n    def apply(self, learner): return []": "state_dict is declared by",
        "def contract(self, learner): return {}": "overrides none of attach, before_loss, ",
    }.items(),
)
def test_an_intervention_that_would_do_nothing_is_refused(ask: Ask, own: str, why: str) -> None:
    Path("idle.py").write_text(
        "from supple.interventions import Intervention, interventions\n"
        f"@interventions.register('idle')\nclass Idle(Intervention):\n    'Idle.'\n    {own}\n"
    )
    for words in (f"train {RUN} --plugin idle.py --hook idle@20 --out out", "check idle.py"):
        code, said = ask(words)
        assert (code, said.count("\n")) == (2, 1), said
        assert f"idle: {why}" in said or f"idle {why}" in said, said
    assert not Path("out").exists()


@pytest.mark.slow
def test_a_run_resumes_once_the_plug_in_is_fixed(ask: Ask) -> None:
    code, _ = ask(f"train {RUN} --hook bad@50 --out out", "apply:sys.exit(0)")
    assert (code, max(Path("out/checkpoints").iterdir()).name) == (1, f"{45:012}")
    code, said = ask("resume out --plugin bad.py", "load_state_dict:1 / 0")
    assert (code, said.count("\n")) == (1, 1)
    assert "hook bad@50 at step 45: load_state_dict raised ZeroDivisionError: division by zero" in said
    assert "ZeroDivisionError" in Path("out/traceback.txt").read_text()
    assert ask("resume out --plugin bad.py") == (0, "")
    assert not Path("out/traceback.txt").exists()


@pytest.mark.slow
def test_the_other_arms_of_a_comparison_finish(ask: Ask, here: Callable[[], object]) -> None:
    with here():  # type: ignore[attr-defined]
        words = f"compare {RUN} --fork-at 0.5 --arm bad@40 --arm none --seeds 0 --out out"
        code, said = ask(words, "apply:sys.exit(0)")
    assert (code, "Traceback" in said) == (1, False)
    assert read_json(Path("out/seed-0/none/outcome.json"), "")["outcome"] == "finished"
    failed = read_json(Path("out/seed-0/bad_40/outcome.json"), "")
    assert failed["reason"].startswith("plug-in bad.py: hook bad@40 at step 40: apply on 'model' raised SystemExit: 0")
    assert "sys.exit" not in failed["reason"]
    assert "SystemExit: 0" in failed["traceback"]


@pytest.mark.slow
def test_check_lists_the_promises_that_an_untestable_intervention_breaks(ask: Ask) -> None:
    code, said = ask("check bad.py", "apply:sys.exit(0)")
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith("supple: bad.py: 8 promises are not kept (bad: writes tensors in place, ")


def test_python_callers_get_the_same_line_with_its_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from supple.interventions import Intervention, interventions

    class Leaves(Intervention):
        """Leave."""

        def apply(self, learner: object) -> list[str]:
            raise SystemExit("bye")

    monkeypatch.setattr(interventions, "_entries", {**interventions.entries, "leaves": Leaves})
    settings = {"tasks": "semantic,reversal", "updates_per_task": 30}
    with pytest.raises(
        PluginFailed, match=r"hook leaves@20 at step 20: apply on 'model' raised SystemExit: bye"
    ) as told:
        train("linear", settings, ["leaves@20"], out=tmp_path / "run", warn=lambda line: None)
    causes = told.value.__cause__, told.value.__cause__ and told.value.__cause__.__cause__
    assert [type(cause).__name__ for cause in causes] == ["PluginFault", "SystemExit"]
