"""Trained runs are evaluated again, to the numbers that they logged themselves, and are left as they are."""

from pathlib import Path
from typing import Any

import pytest

from supple.engine.loading import steps_of
from supple.experiments import evaluate, load, train
from supple.registry.errors import RunError, UsageError
from supple.scripts.main import dispatch
from tests.agents.small import train as train_agent

LINEAR: dict[str, Any] = {"tasks": "semantic,reversal,semantic", "updates_per_task": 20, "checkpoint_every": 10}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seeds"), [("ppo", (3, 8)), ("sac", (0,))])
def test_an_agent_returns_what_it_did_in_its_own_evaluations(
    kind: str, seeds: tuple[int, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = train_agent(kind, tmp_path / "run", seeds, eval_every=60)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    logged = load(path).metrics.dropna(subset="eval/return").set_index(["seed", "step"])["eval/return"]
    for step in (None, min(steps_of(path))):
        found = evaluate(path, step=step).set_index(["seed", "step"])["eval/return"]
        assert found.to_dict() == logged[logged.index.isin([(seed, step or 240) for seed in seeds])].to_dict()
    found = evaluate(path, tasks="past", episodes=1)
    assert found[["seed", "task"]].to_numpy().tolist() == [[seed, task] for seed in seeds for task in (0, 1)]
    dispatch(["evaluate", str(path)])
    said = capsys.readouterr().out
    assert f"{logged[seeds[0], 240]:,.4g}" in said
    assert said.count("\n") == len(seeds) + 1
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_a_supervised_run_is_evaluated_on_all_tasks_so_far(tmp_path: Path) -> None:
    train("linear", LINEAR, out=tmp_path / "run")
    found = evaluate(tmp_path / "run", tasks="past")
    losses = load(tmp_path / "run").tasks["losses"].tolist()[-1]
    assert found["name"].tolist() == ["semantic", "reversal", "semantic"]
    assert found["loss"].tolist() == losses
    with pytest.raises(UsageError, match="--episodes 3 is for agents"):
        evaluate(tmp_path / "run", episodes=3)
    with pytest.raises(RunError, match="has no checkpoint at step 7"):
        evaluate(tmp_path / "run", step=7)
