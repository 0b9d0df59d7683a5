"""Whole runs by one call from Python: the same files as by the command line, and the same refusals."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from supple.agents.ppo import PPOSettings
from supple.agents.presets import LATER
from supple.agents.trained import Trained
from supple.engine.kinds import find_kind
from supple.engine.spec import read_spec
from supple.engine.user_code import plugins
from supple.experiments import Space, Study, Sweep, compare, evaluate, load, resume, train
from supple.experiments.comparisons.folder import read_comparison
from supple.interventions import interventions
from supple.registry.errors import RunError, UsageError
from supple.reports import compose
from supple.scripts.main import dispatch

LINEAR: dict[str, Any] = {"tasks": "semantic,reversal", "updates_per_task": 20}
WORDS = ["--tasks", "semantic,reversal", "--updates-per-task", "20"]
PPO: dict[str, Any] = {
    "env": "CartPole-v1", "steps": 240, "num_envs": 2, "rollout_steps": 20, "minibatch_size": 10, "epochs": 1,
    "hidden": [8], "adapter": 8, "compile": "off", "eval_episodes": 0,
}  # fmt: skip


def weights(path: Path) -> dict[str, bytes]:
    """Return the bytes of all files of tensors in a folder."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*.safetensors")}


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_a_comparison_is_that_of_the_command_line_whatever_the_number_of_jobs(tmp_path: Path, here: Any) -> None:
    arms = ("none", "rebalance(lam=5)@task")
    asked: dict[str, Any] = {"seeds": (3, 4), "vary": {"learning_rate": [0.1, 0.2]}}
    words = ["--vary", "learning_rate=0.1,0.2", "--seeds", "3-4"]
    for arm in arms:
        words += ["--arm", arm]
    with here():
        dispatch(["compare", "linear", *WORDS, *words, "--out", str(tmp_path / "theirs")])
    results = compare("linear", LINEAR, arms, **asked, jobs=2, out=tmp_path / "two")
    with here():
        compare("linear", LINEAR, arms, **asked, jobs=1, out=tmp_path / "one")
    assert weights(tmp_path / "one") == weights(tmp_path / "two") == weights(tmp_path / "theirs") != {}
    assert set(results.tasks["seed"]) == {3, 4}


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_arms_fork_where_the_call_says_and_the_reference_is_one_of_them(tmp_path: Path) -> None:
    results = compare("ppo", PPO, ["none", "fire@0.5"], reference="fresh", fork_at=0, out=tmp_path / "c")
    assert set(results.episodes["arm"]) == {"none", "fire@0.5", "fresh"}
    results = compare("ppo", PPOSettings(**{**PPO, "hidden": (8,)}), ["none", "fire"], fork_at=0.5, out=tmp_path / "d")
    assert (tmp_path / "d/seed-0/trunk").is_dir()
    assert results.events.query("event == 'intervention'")[["arm", "step"]].values.tolist() == [["fire", 120]]


def test_the_measure_that_was_declared_leads_and_every_run_knows_it(tmp_path: Path) -> None:
    compare("linear", LINEAR, ["none"], fork_at=0, leads="final forgetting", out=tmp_path / "c")
    measures = [measure.name for measure in compose(tmp_path / "c").measures]
    assert measures[0] == "final forgetting"
    assert set(measures) == set(find_kind("linear").measures)
    assert read_spec(tmp_path / "c/seed-0/none").labels.leads == "final forgetting"
    assert read_comparison(tmp_path / "c").leads == "final forgetting"


@pytest.mark.slow
def test_what_a_preset_says_holds_where_the_call_says_nothing(tmp_path: Path) -> None:
    small = {key: PPO[key] for key in ("num_envs", "rollout_steps", "minibatch_size", "epochs", "hidden", "compile")}
    small |= {"cycles": 2, "steps_per_task": 40, "eval_episodes": 0}
    results = compare("ppo", small, ["none"], preset="gym-control-small", seeds=[5], fork_at=0, out=tmp_path / "c")
    assert set(results.episodes["arm"]) == {"none", "fresh"}  # the reference is the preset's
    assert results.studies[""].first.settings.env == "CartPole-v1"
    assert read_comparison(tmp_path / "c").leads == results.studies[""].first.leads == LATER
    assert results.scores["leads"] == results.scores["differences"][0]["measure"] == LATER


@pytest.mark.slow
def test_a_sweep_is_trained_and_read_by_the_same_calls(tmp_path: Path) -> None:
    rates = Study("rates", "linear", settings=LINEAR, arms=("none",), space=Space({"learning_rate": [0.01, 0.02]}))
    arms = Study("arms", "linear", settings=LINEAR, arms=("none", "snp@task"), seeds=(0, 1))
    Sweep([rates, arms]).begin(tmp_path / "out")
    results = resume(tmp_path / "out")
    assert results.tasks.columns[:3].tolist() == ["study", "arm", "seed"]
    assert set(results.tasks.groupby(["study", "arm", "seed"]).groups) == {
        ("rates", "learning_rate=0.01 · none", 0), ("rates", "learning_rate=0.02 · none", 0),
        *(("arms", arm, seed) for arm in ("none", "snp@task") for seed in (0, 1)),
    }  # fmt: skip
    rates = results.metrics[results.metrics["study"] == "rates"]
    assert set(rates.groupby(["learning_rate", "hooks"]).groups) == {(0.01, "none"), (0.02, "none")}
    own = (
        results.metrics[results.metrics["study"] == "arms"]
        .drop(columns=["study", "learning_rate", "hooks"])
        .reset_index(drop=True)
    )
    assert own.equals(load(tmp_path / "out/arms").metrics)


@pytest.mark.slow
def test_a_run_that_fails_is_named_when_the_others_are_at_their_end(tmp_path: Path) -> None:
    arms = ["upgd(sigma=1e38)", "none"]
    with pytest.raises(RunError, match=r"^1 of 2 runs failed, the first in .*upgd_sigma=1e38.*diverged"):
        compare("ppo", PPO, arms, fork_at=0, out=tmp_path / "c")
    assert (tmp_path / "c/seed-0/none/outcome.json").read_text().count("finished") == 1
    with pytest.raises(RunError, match="1 of 2 runs failed"):
        resume(tmp_path / "c")
    with pytest.raises(RunError, match="1 of 2 runs failed"):
        resume(tmp_path / "c", retry_failed=True)
    outcomes = [file.stat().st_mtime_ns for file in sorted((tmp_path / "c").glob("seed-0/*/outcome.json"))]
    assert outcomes[1] > outcomes[0]  # `none` was not trained again, the other was
    with pytest.raises(UsageError, match="retry_failed is for comparisons and sweeps"):
        resume(tmp_path / "c/seed-0/none", retry_failed=True)


PLUGIN = """
from supple.interventions import Intervention, interventions

@interventions.register("nothing_at_all")
class Nothing(Intervention):
    def after_update(self, learner):
        pass
"""


@pytest.mark.slow
def test_a_run_with_a_plug_in_is_made_resumed_and_evaluated_by_calls_that_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setattr(interventions, "_entries", {**interventions._entries})
    (tmp_path / "own_plugin.py").write_text(PLUGIN)
    named = {"plugin": str(tmp_path / "own_plugin.py")}
    train("ppo", PPO, "nothing_at_all", out=tmp_path / "run", **named)
    assert [*read_spec(tmp_path / "run").resolved.plugins] == ["own_plugin.py"]
    resume(tmp_path / "run", **named)
    monkeypatch.setattr(plugins, "_loaded", {})
    assert len(load(tmp_path / "run", **named).metrics)
    assert [plugin.name for plugin in plugins.loaded()] == ["own_plugin.py"]
    monkeypatch.setattr(plugins, "_loaded", {})
    with pytest.raises(UsageError, match="or plugin= in Python"):
        Trained(tmp_path / "run")
    assert len(Trained(tmp_path / "run", **named).evaluate(episodes=2)) == len(evaluate(tmp_path / "run", **named)) + 1
    (tmp_path / "own_plugin.py").write_text(PLUGIN + "\n")
    with pytest.raises(UsageError, match="is not the file that this process has imported"):
        evaluate(tmp_path / "run", **named)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"settings": {"stps": 3}}, "ppo has no setting 'stps': did you mean 'steps'?"),
        (
            {"settings": {"hidden": 3}},
            "settings of ppo: hidden should be none or a list, each item an",
        ),
        ({"kind": "sac", "settings": PPOSettings()}, "settings of sac must be SACSettings"),
        ({"settings": PPOSettings(checkpoint_every="7")}, 'but is "7"'),  # type: ignore[arg-type]
        ({"preset": "gym-control", "settings": PPOSettings()}, "with a preset, settings must be a dictionary"),
        ({"hooks": "fir@0.5"}, "did you mean 'fire'?"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_before_anything_is_written(
    tmp_path: Path, asked: dict[str, Any], says: str
) -> None:
    asked = {"kind": "ppo", "settings": PPO, **asked}
    with pytest.raises(ValueError, match=re.escape(says)):
        train(**asked, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_numbers_may_be_whole_floats_or_of_numpy_and_one_hook_a_text(tmp_path: Path) -> None:
    threads, steps = torch.get_num_threads(), list[int]()
    settings = {
        **LINEAR,
        "updates_per_task": 2e1,
        "n_hidden": np.int64(8),
        "learning_rate": np.float32(0.5),
        "threads": 2,
    }
    results = train("linear", settings, "snp@task", out=tmp_path / "a", progress=steps.append)
    assert (steps[-1], torch.get_num_threads()) == (40, threads)
    config = json.loads((tmp_path / "a/config.json").read_text())
    assert (config["settings"]["updates_per_task"], config["settings"]["n_hidden"]) == (20, 8)
    assert config["settings"]["hook"] == ["snp@task"]
    assert len(results.tasks) == 2
    with pytest.raises(UsageError, match=r"updates_per_task should be an integer, but is 20\.5"):
        train("linear", {**LINEAR, "updates_per_task": 20.5}, out=tmp_path / "b")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arms": ["none", "fresh"]}, "reference fresh"),
        ({"arms": ["none", None]}, "should be a text, but is none"),
        ({"seeds": (0, 0.5)}, "seeds should be"),
        ({"vary": {"learning_rate": 0.1}}, "vary: learning_rate should be a list"),
        ({"jobs": 0}, "jobs must be a positive number, got 0"),
        ({"reference": "fersh"}, "reference should be .*did you mean 'fresh'"),
        ({"settings": ["steps"]}, "settings must be a dictionary such as"),
    ],
)
def test_an_error_names_the_argument(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        compare("linear", **{"settings": LINEAR, "arms": ["none", "snp"], "out": tmp_path / "c", **arguments})
    assert not (tmp_path / "c").exists()
