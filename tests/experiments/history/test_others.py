"""Logs of other programs: where arms, seeds, steps and tasks are read from, and what is refused."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from torch.utils.tensorboard import SummaryWriter

from supple.experiments.history.others import read_others
from supple.registry.errors import UsageError


def write_monitor(file: Path, episodes: Sequence[tuple[float, int, float]], began: float = 0.0) -> Path:
    """Write return, length and time of each episode as Stable-Baselines3 does."""
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = "".join(",".join(map(str, episode)) + "\n" for episode in episodes)
    file.write_text(f'#{{"t_start": {began}, "env_id": "CartPole-v1"}}\nr,l,t\n{rows}')
    return file


def write_csv(file: Path, rows: Sequence[str], header: str = "arm,seed,step,value,task") -> Path:
    file.write_text("\n".join([header, *rows]) + "\n")
    return file


@pytest.mark.parametrize(
    ("files", "places"),
    [
        (["ppo/seed-0", "ppo/seed-12", "sac/seed-0"], {"ppo": [0, 12], "sac": [0]}),
        (["PPO_1", "PPO_2", "DQN_1"], {"PPO": [1, 2], "DQN": [1]}),
        (["ppo/Ant-v5_3", "sac/Ant-v5_3"], {"ppo/Ant-v5": [3], "sac/Ant-v5": [3]}),
        (["1/seed=4,lr=0.1", "1/seed=5,lr=0.1"], {"lr=0.1": [4, 5]}),
        (["Hopper-v4", "Ant-v4"], {"Hopper-v4": [0], "Ant-v4": [0]}),
        (["ppo/seed3"], {"ppo": [3]}),
        (["no reset/seed 1", "no reset/seed 2", "fire 1/run 3"], {"no reset": [1, 2], "fire 1/run": [3]}),
    ],
)
def test_arms_and_seeds_are_read_from_the_paths(tmp_path: Path, files: list[str], places: dict[str, list[int]]) -> None:
    paths = [write_monitor(tmp_path / file / "monitor.csv", [(1, 9, 0.1)]) for file in files]
    found = read_others(paths).arms
    assert {arm: [run.seed for run in runs] for arm, runs in found.items()} == places


def test_the_monitors_of_several_copies_are_one_run_in_the_order_of_time(tmp_path: Path) -> None:
    write_monitor(tmp_path / "ppo/0.monitor.csv", [(1, 10, 1), (3, 30, 3)], began=100)
    write_monitor(tmp_path / "ppo/1.monitor.csv", [(2, 20, 1), (4, 40, 3)], began=101)
    write_monitor(tmp_path / "ppo/late.monitor.csv", [])
    data = read_others([tmp_path])
    (run,) = data.runs
    assert run.episodes.steps.tolist() == [10, 30, 60, 100]
    assert run.episodes.returns.tolist() == [1, 2, 3, 4]
    assert data.notes == ["ppo/late, seed 0: it has no value"]


def test_a_scalar_of_tensorboard_is_read_by_its_tag(tmp_path: Path) -> None:
    for name in ("PPO_1", "PPO_2"):
        with SummaryWriter(str(tmp_path / name)) as board:
            for step in (10, 20):
                board.add_scalar("eval/loss", step / 2, step)
    data = read_others([tmp_path], "eval/loss")
    assert [run.seed for run in data.arms["PPO"]] == [1, 2]
    assert data.first.episodes.returns.tolist() == [5, 10]
    assert data.first.settings.value == "eval/loss"
    with pytest.raises(UsageError, match=r"no scalar 'rollout/ep_rew_mean'.*--tag \(eval/loss\)"):
        read_others([tmp_path])


def test_a_task_lasts_from_the_last_row_before_its_first_one(tmp_path: Path) -> None:
    rows = ["a,0,50,1,x", "a,0,100,2,x", "a,0,150,5,y", "a,0,200,6,y", "a,0,200,1.5,x", "a,0,200,nan,y"]
    (run,) = read_others([write_csv(tmp_path / "rows.csv", rows)]).runs
    assert [(task.name, task.start, task.end) for task in run.tasks] == [("x", 0, 100), ("y", 100, 200)]
    found = {(event["task"], event["evaluated"]): event["return"] for event in run.events}
    assert found == {(0, 0): 2, (1, 0): 1.5, (1, 1): 6}


def test_arms_and_tasks_may_be_called_none(tmp_path: Path) -> None:
    data = read_others([write_csv(tmp_path / "rows.csv", ["None,0,10,1,NA", "None,0,20,,NA", "null,0,10,2,NA"])])
    assert {arm: run.episodes.returns.tolist() for arm, [run] in data.arms.items()} == {"None": [1], "null": [2]}
    assert data.first.tasks[0].name == "NA"


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (["a,0,10,1,x", "a,0,10,1,y"], "a, seed 0: tasks x, y must begin one after another"),
        (["a,0,10,1,x", "a,0,20,1,y", "b,0,10,1,y", "b,0,20,1,x"], "one order of tasks"),
        (["a,0,0,1,x"], "no value at a step above 0"),
        (["a,0,10,1,x", ",0,10,1,x"], "a row has no arm"),
        (["a,one,10,1,x"], "with numbers in seed, step and value"),
    ],
)
def test_rows_without_a_meaning_are_refused(tmp_path: Path, rows: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as error:
        read_others([write_csv(tmp_path / "rows.csv", rows)])
    assert "\n" not in str(error.value)


def test_files_without_a_meaning_are_refused(tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "rows.csv", ["a,0,1"], "arm,seed,step")
    one, other = (write_monitor(tmp_path / name / "monitor.csv", [(1, 9, 0.1)]) for name in ("ppo_1", "ppo-1"))
    broken = tmp_path / "monitor.csv"
    broken.write_text("r,l,t\n")
    for paths, tag, complaint in (
        ([rows], None, "needs the columns arm, seed, step, value"),
        ([one, other], None, "both arm ppo, seed 1"),
        ([broken], None, "not a monitor"),
        ([rows], "loss", "--tag loss: none"),
        ([tmp_path / "none"], None, "is no file, and no folder with"),
    ):
        with pytest.raises(UsageError, match=complaint):
            read_others(paths, tag)
