"""Wrong command lines of `supple linear` and of the kind linear: one line on stderr, and nothing is made."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

Ask = Callable[..., tuple[int, str]]
TRAIN, COMPARE = "train linear --out OUT", "compare linear --out OUT"

WRONG = {
    "train linear --n-hidden 99999999999 --out OUT": "--n-hidden 99999999999: a tensor of shape (99999999999, 8) needs",
    "linear": None,  # help, not an error
    "linear train --out OUT": "unknown command 'train' (known: fig1, ",
    "linear fig6 --out OUT": "unknown command 'fig6': did you mean 'fig",
    "train linear --threads 1": "--out is missing",
    f"{TRAIN} --task semantic": "unknown option --task, did you mean --tasks?",
    f"{TRAIN} --preset demo-mujoco": "--preset demo-mujoco: a preset of ppo, not of linear",
    # tasks
    f"{TRAIN} --tasks semantik": "--tasks semantik: no task 'semantik': did you mean 'semantic'? (known: random, ",
    f"{TRAIN} --tasks semantic,": "--tasks semantic,: no task ''",
    f"{TRAIN} --tasks reversal,semantic": "reversal changes the task before it: begin with random or semantic",
    f"{TRAIN} --tasks random,feature": "feature needs an item that lacks one, as after semantic",
    f"{TRAIN} --n-in 4": "the hierarchy has 8 items and 8 features, the network 4 inputs and 8 outputs: give --n-in 8",
    f"{TRAIN} --tasks random --samples 5": "--samples 5 are too few for --n-in 8: whitened inputs need as many",
    f"{TRAIN} --updates-per-task 0": "--updates-per-task must be a positive number, got 0",
    # the network and its training
    f"{TRAIN} --n-hidden 0": "--n-hidden must be a positive number, got 0",
    f"{TRAIN} --n-hidden 9 --lam 1": "λ = 1 > 0 with n_hidden = 9 > n_out = 8",
    f"{TRAIN} --n-hidden 9 --lam -1": "λ = -1 < 0 with n_hidden = 9 > n_in = 8",
    f"{TRAIN} --lam nan": "--lam must be a finite number, got nan",
    f"{TRAIN} --lam much": "--lam: 'much' is not a number",
    f"{TRAIN} --init-scale 0": "--init-scale must be a positive number, got 0.0",
    f"{TRAIN} --learning-rate -1": "--learning-rate must be a positive number, got -1.0",
    f"{TRAIN} --hook fire": "'fire' needs a schedule",
    f"{TRAIN} --hook fire@task": "never fires: the run has 0 task switches",
    f"{TRAIN} --hook 'fire(scope=conv)@2'": "scope 'conv' names no layer of 'model'",
    f"{TRAIN} --out .": "--out . already holds another run or other files",
    # figures
    "linear fig1 --seed -1 --out OUT": "--seed must be 0 or more, got -1",
    "linear fig1 --seed one --out OUT": "--seed: 'one' is not an integer",
    "linear figures --out notes.txt": "--out notes.txt is a file",
    # comparisons
    f"{COMPARE} --preset demo-mujoco": "--preset demo-mujoco: a preset of ppo, not of linear",
    f"{COMPARE} --seed 3": "--seed 3 is for a single run: a comparison takes --seeds 3",
    f"{COMPARE} --vary lamb=1": "--vary lamb=1: unknown setting 'lamb': did you mean 'lam'?",
    f"{COMPARE} --n-hidden 9 --vary lam=0,1": "λ = 1 > 0 with n_hidden = 9 > n_out = 8",
    f"{COMPARE} --arm fire@task": "never fires: the run has 0 task switches",
    f"{COMPARE} --hook fire@2": "--hook is for single runs",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_usage_is_one_line_and_makes_nothing(
    line: str, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").touch()
    code, stderr = ask(*shlex.split(line.replace("OUT", str(tmp_path / "out"))))
    if (wanted := WRONG[line]) is None:
        assert (code, stderr) == (0, "")
    else:
        assert stderr.startswith("supple: ")
        assert (code, stderr.count("\n")) == (2, 1)
        assert wanted in stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_training_that_diverges_is_an_error_in_one_line(tmp_path: Path, ask: Ask) -> None:
    line = f"train linear --tasks semantic --updates-per-task 60 --learning-rate 5 --lam 3 --out {tmp_path / 'run'}"
    code, stderr = ask(*shlex.split(line))
    assert (code, stderr.count("\n")) == (1, 1)
    assert "run (linear, seed 0): training diverged by step" in stderr
    assert "the first tensor that is not finite is first.weight of the model" in stderr
