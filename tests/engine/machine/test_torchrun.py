"""The environment variables of torchrun: how they are read, and which values are refused."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from supple.engine.machine import torchrun
from supple.engine.machine.distributed import join_processes
from supple.registry.errors import RunError, UsageError
from supple.scripts import compare, train

VARIABLES = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
PAIR = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
LINEAR = ["linear", "--tasks", "semantic", "--updates-per-task", "4", "--out"]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def put(monkeypatch: pytest.MonkeyPatch, given: Mapping[str, str]) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("given", "world", "rank"),
    [
        ({}, 1, 0),
        ({"RANK": "3"}, 1, 0),  # of a scheduler
        ({"RANK": "", "WORLD_SIZE": ""}, 1, 0),
        ({"WORLD_SIZE": "1"}, 1, 0),
        ({"WORLD_SIZE": "1", "RANK": "0"}, 1, 0),
        (PAIR, 2, 1),
    ],
)
def test_the_rank_counts_only_if_there_are_several_processes(
    given: Mapping[str, str], world: int, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(monkeypatch, given)
    assert (torchrun.world(), torchrun.rank()) == (world, rank)


def test_a_rank_without_a_world_size_is_remarked_and_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    train.main([*LINEAR, str(tmp_path / "run")])
    out, err = capsys.readouterr()
    assert f"done: {tmp_path / 'run'}" in out.replace("\n", "")
    assert err == "supple: RANK=1 without WORLD_SIZE is not from torchrun: this process trains alone, as without it\n"
    assert (tmp_path / "run" / "metrics.jsonl").stat().st_size > 0


def test_a_comparison_is_not_started_once_for_each_process_of_torchrun(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put(monkeypatch, PAIR)
    with pytest.raises(UsageError, match=r"^a comparison runs in processes of its own: start it without torchrun"):
        compare.main([*LINEAR, str(tmp_path / "out")])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "gpus", "words"),
    [
        ({"LOCAL_RANK": "2"}, 2, "LOCAL_RANK=2, but PyTorch finds 2 GPUs here"),
    ],
)
def test_a_process_without_a_gpu_of_its_own_is_refused(
    given: Mapping[str, str], gpus: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(monkeypatch, {**PAIR, **given})
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    with pytest.raises(UsageError) as refused, join_processes("cuda"):
        pass
    assert str(refused.value).startswith(words)


def test_processes_that_cannot_be_joined_are_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(backend: str) -> None:
        raise RuntimeError("The client socket has timed out\nafter 1800000ms")

    put(monkeypatch, PAIR)
    monkeypatch.setattr("torch.distributed.init_process_group", unreachable)
    wanted = r"^the processes that train together cannot be joined: Runtime"
    with pytest.raises(RunError, match=wanted) as failed, join_processes("cpu"):
        pass
    assert "\n" not in str(failed.value)
