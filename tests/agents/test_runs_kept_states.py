"""`--keep-best` and `--keep-at` of agents: which states are kept, that they can be used, that nothing else changes."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from supple.engine.runs import build
from supple.engine.spec import read_spec
from supple.engine.storage import checkpoint

EVALUATED = "--env inverted_pendulum --eval-every 128 --eval-episodes 2 --keep-best True "
PPO = shlex.split(
    f"train ppo {EVALUATED} --steps 1024 --keep-at 300 700 --num-envs 4 --rollout-steps 32 --minibatch-size 64 "
    "--epochs 2 --hidden 16 16 --adapter 0 --learning-rate 1e-3 --checkpoint-every 200 --measure-every 256 "
    "--hook fire@0.5"
)
SAC = shlex.split(
    f"train sac {EVALUATED} --steps 480 --keep-at 150 300 --num-envs 2 --learning-starts 20 --replay-size 100 "
    "--batch-size 8 --actor-width 8 --critic-width 8 --critic-blocks 1 --replay-ratio 0.5 --checkpoint-every 160 "
    "--measure-every 240 --device cpu --compile off"
)


def states(run: Path, kind: str) -> dict[int, Path]:
    """Return step → folder of the kept states."""
    return {int(folder.name): folder for folder in sorted((run / kind).iterdir())}


def returns(run: Path) -> dict[int, float]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {row["step"]: row["eval/return"] for row in rows if "eval/return" in row}


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "kept"), [(PPO, [384, 768]), (SAC, [152, 300])], ids=["ppo", "sac"])
def test_best_and_kept_states_can_be_used_and_survive_kills(
    nursery: Any, same: Any, tmp_path: Path, arguments: list[str], kept: list[int]
) -> None:
    run = tmp_path / "run"
    assert nursery.run(*arguments, "--out", run) == 0, nursery.stderr()
    seen = returns(run)
    assert list(states(run, "kept")) == kept
    assert list(states(run, "best")) == [max(seen, key=seen.__getitem__)]  # the first of equals
    for step, folder in (states(run, "best") | states(run, "kept")).items():
        check_usable(run, folder, seen.get(step))

    again = tmp_path / "again"
    assert nursery.killed(arguments, again, 60) > 1
    same.assert_runs(again, run)
    for kind in ("best", "kept"):
        ours, theirs = states(again, kind), states(run, kind)
        assert {s: same.state(f) for s, f in ours.items()} == {s: same.state(f) for s, f in theirs.items()}


def check_usable(run: Path, folder: Path, ret: float | None) -> None:
    """Assert that a new agent can load a state, and that its evaluation equals that of the run at that step."""
    spec = read_spec(run)
    work = build(spec.kind_row, spec.settings)
    try:
        work.enter(work.tasks[0])
        work.load_state(checkpoint.load(folder, spec.resolved.identity)["work"])
        if ret is not None:
            assert work.evaluate(work.tasks[0])["eval/return"] == ret
    finally:
        work.close()
