"""A plug-in that fails ends the command with exit status 1: one line with its name and the step, then the traceback."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from supple.engine.storage.signed_json import read_json
from supple.scripts.cli.console import run
from supple.scripts.main import dispatch

CODE = """
import os, torch
from supple.interventions import Intervention, interventions
from supple.metrics import Metric, metrics

WRONG = os.environ.get("WRONG", "")

def act(place, right=None):
    return eval(WRONG.partition(":")[2]) if WRONG.startswith(place + ":") else right

@interventions.register("bad")
class Bad(Intervention):
    '''Do wrong.'''
    def __init__(self): act("__init__")
    def attach(self, learner): act("attach")
    def apply(self, learner):
        return act("apply", [])
    def after_update(self, learner): act("after_update")
    def load_state_dict(self, state): act("load_state_dict")

metrics.register("number")(Metric("a number", "weights", lambda view: act("metric", torch.zeros(view.networks))))
"""
RUN = "linear --tasks semantic,reversal --updates-per-task 30 --checkpoint-every 15 --measure-every 20 --plugin bad.py"
TOLD = {
    "apply:1 / 0": "after step 20: plug-in bad.py: hook bad@20: apply on 'model': ZeroDivisionError",
    "apply:'weight'": "after step 20: plug-in bad.py: hook bad@20: apply on 'model': TypeError: it must return a list",
    "after_update:open('nowhere')": "after step 0: plug-in bad.py: hook bad@20: after_update on 'model': FileNotFound",
    "metric:torch.zeros(7)": "after step 20: plug-in bad.py: metric number: ValueError: it must return one number for",
    "attach:{}['key']": "plug-in bad.py: hook bad@20: attach on 'model': KeyError: 'key'",
    "__init__:{}['key']": "plug-in bad.py: making bad: KeyError: 'key'",
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
def ask(ask_process: Ask) -> Ask:
    """Return `ask(words, wrong)`: the exit status and stderr of `supple` with a plug-in that does something wrong."""
    Path("bad.py").write_text(CODE)
    return ask_process


@pytest.mark.slow
@pytest.mark.parametrize("wrong", TOLD)
def test_one_line_names_the_plug_in_its_method_and_the_step_before_the_traceback(ask: Ask, wrong: str) -> None:
    code, said = ask(f"train {RUN} --hook bad@20 --out out", wrong)
    first, second = [line for line in said.splitlines() if "once that is mended" not in line][:2]
    assert (code, second) == (1, "Traceback (most recent call last):"), said
    assert first.startswith(f"supple: {TOLD[wrong]}"), said
    assert Path("out").exists() == ("after step" in said)


@pytest.mark.slow
def test_a_plug_in_that_refuses_its_parameters_is_one_line(ask: Ask) -> None:
    code, said = ask(f"train {RUN} --hook bad@20 --out out", "__init__:int('many')")
    assert (code, said.count("\n")) == (2, 1), said


@pytest.mark.slow
def test_an_intervention_that_would_do_nothing_is_refused(ask: Ask) -> None:
    Path("idle.py").write_text(
        "from supple.interventions import Intervention, interventions\n"
        "@interventions.register('idle')\nclass Idle(Intervention):\n    'Idle.'\n"
    )
    for words in (f"train {RUN} --plugin idle.py --hook idle@20 --out out", "check idle.py"):
        code, said = ask(words)
        assert (code, said.count("\n")) == (2, 1), said
        assert "idle overrides none of attach, " in said


@pytest.mark.slow
def test_a_run_resumes_once_the_plug_in_is_mended(ask: Ask) -> None:
    code, said = ask(f"train {RUN} --hook bad@50 --out out", "apply:1 / 0")
    assert (code, max(Path("out/checkpoints").iterdir()).name) == (1, f"{45:012}")
    assert "once that is mended, `supple resume out --plugin" in said
    assert ask("resume out --plugin bad.py") == (0, "")


@pytest.mark.slow
def test_the_other_arms_of_a_comparison_finish(ask: Ask, here: Callable[[], object]) -> None:
    with here():  # type: ignore[attr-defined]
        words = f"compare {RUN} --fork-at 0.5 --arm bad@40 --arm none --seeds 0 --out out"
        code, said = ask(words, "apply:1 / 0")
    assert (code, "Traceback" in said) == (1, False)
    assert read_json(Path("out/seed-0/none/outcome.json"), "")["outcome"] == "finished"
    reason = read_json(Path("out/seed-0/bad_40-2834cd/outcome.json"), "")["reason"]
    assert reason.startswith("after step 40: plug-in bad.py: hook bad@40: apply on 'model': ZeroDivisionError")
    assert reason.endswith("its traceback is in out/seed-0/bad_40-2834cd/traceback.txt")
    assert "return eval(" in Path("out/seed-0/bad_40-2834cd/traceback.txt").read_text()
    code, said = ask("worker out --plugin bad.py")
    assert (code, "1 of 3 runs failed; `supple resume out --plugin " in said) == (1, True), said


@pytest.mark.slow
def test_check_lists_the_promises_that_an_untestable_intervention_breaks(ask: Ask) -> None:
    code, said = ask("check bad.py", "apply:1 / 0")
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith("supple: bad.py: 8 promises are not kept (bad: writes tensors in place, ")
