"""The environment variables of torchrun: how they are read, and which values are refused."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from supple.engine.machine import torchrun
from supple.engine.machine.distributed import join_processes
from supple.registry.errors import RunError, UsageError
from supple.scripts import compare

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
        (PAIR, 2, 1),
    ],
)
def test_the_rank_counts_only_if_there_are_several_processes(
    given: Mapping[str, str], world: int, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(monkeypatch, given)
    assert (torchrun.world(), torchrun.rank()) == (world, rank)


def test_a_comparison_is_not_started_once_for_each_process_of_torchrun(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put(monkeypatch, PAIR)
    with pytest.raises(UsageError, match=r"^a comparison runs in processes of its own: start it without torchrun"):
        compare.main([*LINEAR, str(tmp_path / "out")])
    assert list(tmp_path.iterdir()) == []


def test_a_process_without_a_gpu_of_its_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, {**PAIR, "LOCAL_RANK": "2"})
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(UsageError, match="LOCAL_RANK=2, but PyTorch finds 2 GPUs here"), join_processes("cuda"):
        pass


def test_processes_that_cannot_be_joined_are_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(backend: str) -> None:
        raise RuntimeError("The client socket has timed out\nafter 1800000ms")

    put(monkeypatch, PAIR)
    monkeypatch.setattr("torch.distributed.init_process_group", unreachable)
    wanted = r"^the processes that train together cannot be joined: Runtime"
    with pytest.raises(RunError, match=wanted) as failed, join_processes("cpu"):
        pass
    assert "\n" not in str(failed.value)
