"""Lists, and one short run from beginning to report."""

import json
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from supple.engine.spec import read_spec
from supple.engine.user_code import plugins
from supple.registry.errors import UsageError
from supple.scripts import compare
from supple.scripts.cli.console import run
from supple.scripts.cli.options import parse_request
from supple.scripts.main import dispatch

SHORT = "train ppo --env inverted_pendulum --steps 512 --num-envs 4 --rollout-steps 32 --hidden 8 --eval-episodes 1"


def supple(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command prints, which must succeed."""
    monkeypatch.setattr(sys, "argv", ["supple", *shlex.split(line)])
    with pytest.raises(SystemExit) as stop:
        run(dispatch)
    printed = capsys.readouterr()
    assert (stop.value.code, printed.err) == (0, "")
    return printed.out


@pytest.mark.slow
def test_list_names_everything_that_is_registered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from supple.engine.kinds import all_kinds, presets_of
    from supple.interventions import activation_registry, interventions
    from supple.metrics import METRICS

    monkeypatch.setenv("COLUMNS", "200")
    topics = "presets benchmarks kinds interventions activations metrics environments sequences"
    text = supple(f"list {topics}", monkeypatch, capsys)
    registered = [*interventions.names(), *activation_registry.names(), *METRICS, *all_kinds(), *presets_of()]
    assert [name for name in (*registered, "halfcheetah", "cycling-text") if name not in text] == []


@pytest.mark.slow
def test_train_resume_and_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    line = f"{SHORT} --hook fire@0.5 --out {out}"
    assert f"done: {out}" in supple(line, monkeypatch, capsys).replace("\n", "")
    spec = read_spec(out)
    assert spec.command == f"supple {line}"
    assert spec.resolved.hooks == ("fire@0.5",)
    assert spec.settings.num_envs == 4
    resumed = supple(f"resume {out}", monkeypatch, capsys).replace("\n", "")
    assert f"{out} has been trained to its end, step 512" in resumed
    assert f"done: {out}" in resumed
    supple(f"report {out}", monkeypatch, capsys)
    assert (out / "report/index.html").exists()


@pytest.mark.slow
def test_seeds_of_a_kind_without_stacks_are_runs_as_in_a_comparison_with_one_arm(tmp_path: Path, here: Any) -> None:
    asked = "linear --tasks semantic,reversal --updates-per-task 20 --seeds 3-4"
    with here():
        dispatch([*f"train {asked} --hook snp@task --hook fire@task --out {tmp_path / 'a'}".split()])
        dispatch(
            ["compare", *asked.split(), "--fork-at", "0", "--arm", "snp@task + fire@task", "--out", f"{tmp_path}/b"]
        )
    found = {file.relative_to(tmp_path / "a"): file.read_bytes() for file in (tmp_path / "a").rglob("*.safetensors")}
    assert {str(file.parts[0]) for file in found} == {"seed-3", "seed-4"}
    assert all((tmp_path / "b" / file).read_bytes() == content for file, content in found.items())
    for words, says in {"--jobs 2": "for several --seeds", "--seeds 1 2 --seed 3": "both say which seeds"}.items():
        with pytest.raises(UsageError, match=says):
            dispatch([*f"train linear --tasks semantic {words} --out {tmp_path / 'c'}".split()])
    assert not (tmp_path / "c").exists()


def test_the_tasks_of_an_agent_are_its_sequence_and_may_be_of_a_module() -> None:
    def settings(*words: str) -> Any:
        return compare.parse_options(parse_request("compare", [*words, "--out", "x"])).settings

    assert settings("ppo", "--tasks", "cartpole,acrobot").sequence == "cartpole,acrobot"
    with pytest.raises(UsageError, match="--tasks nowhere: there is no package with this name"):
        settings("ppo", "--tasks", "cartpole,nowhere:Mine-v0")
    named = ("reasoning-gym:a", "b", "c")
    for words in (["reasoning-gym:a,b,c"], ["reasoning-gym:a", "b, c"]):
        assert settings("continual", "--model", "m", "--tasks", *words).tasks == named


def test_a_file_is_named_before_its_environment_with_or_without_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "wooden.py"
    file.write_text("import gymnasium; gymnasium.register('Wooden-v0', entry_point='a:B')")
    words = ["ppo", "--env", f"{file}:Wooden-v0", "--steps", "8", "--out", "x"]
    for more in ([], ["--plugin", str(file)]):
        monkeypatch.setattr(plugins, "_loaded", {})
        settings = compare.parse_options(parse_request("compare", [*words, *more])).settings
        assert [plugin.name for plugin in plugins.loaded()] == ["wooden.py"]
        assert settings.environments() == ("Wooden-v0",)
    del gymnasium.registry["Wooden-v0"], sys.modules["wooden"]


@pytest.mark.slow
def test_options_override_the_settings_of_a_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("supple.scripts.cli.training.finish_run", lambda *_: None)
    supple(f"train ppo --preset demo-mujoco --steps-per-task 80 --out {tmp_path / 'run'}", monkeypatch, capsys)
    settings = json.loads((tmp_path / "run/config.json").read_text())["settings"]
    assert (settings["sequence"], settings["steps_per_task"]) == ("halfcheetah,hopper,walker2d,ant", 80)


def test_a_run_imports_neither_figures_nor_tests_of_significance(tmp_path: Path) -> None:
    code = """
        import atexit, sys
        heavy = {"matplotlib", "pandas", "scipy.stats", "scipy.optimize", "tabulate"}
        atexit.register(lambda: print(*sorted(heavy & set(sys.modules))))  # called last
        from supple.scripts.main import main
        main()
    """
    words = ["train", "ppo", "--env", "CartPole-v1", "--steps", "64", "--compile", "off", "--out", str(tmp_path / "a")]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *words], check=True, capture_output=True, text=True
    )
    assert "\nresults " in done.stdout
    assert not done.stdout.splitlines()[-1]
