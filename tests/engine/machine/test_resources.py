"""The processors and memory that a process may use, and runs that need more."""

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from supple.engine.machine import resources
from supple.interventions import learner_for
from supple.registry.errors import UsageError


def test_free_memory_respects_the_limit_of_a_container_and_ignores_file_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = resources.free_memory()
    monkeypatch.setattr(resources, "CGROUP", tmp_path)
    for name, text in (("max", "1000000"), ("current", "900000"), ("stat", "anon 1\ninactive_file 300000\n")):
        (tmp_path / f"memory.{name}").write_text(text)
    assert resources.free_memory() == 400_000 < whole
    (tmp_path / "memory.max").write_text("max\n")
    assert resources.free_memory() > 400_000


@pytest.mark.parametrize(("quota", "wanted"), [("150000 100000", 2), ("max 100000", 3), ("50000 100000", 1)])
def test_processors_are_those_that_this_process_may_use(
    quota: str, wanted: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    monkeypatch.setattr(resources, "CGROUP", tmp_path)
    assert resources.cpus() == 3
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    assert resources.cpus() == wanted


@pytest.mark.parametrize(
    ("workers", "threads", "wanted"),
    [(1, None, 8), (2, None, 4), (3, "1", 1), (1, "16", 8), (1, "many", 8), (20, None, 1)],
)
def test_workers_divide_the_processors(
    workers: int, threads: str | None, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "cpus", lambda: 8)
    monkeypatch.delenv(resources.THREADS, raising=False)
    if threads is not None:
        monkeypatch.setenv(resources.THREADS, threads)
    with resources.sharing(workers):
        assert resources.own_cpus() == wanted


@pytest.mark.parametrize(
    ("given", "count", "wanted"), [(None, 2, ["0", "1"]), ("3,5", 2, ["3", "5"]), ("", 0, []), (None, 0, [])]
)
def test_gpus_are_named_as_in_cuda_visible_devices(
    given: str | None, count: int, wanted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    monkeypatch.delenv(resources.VISIBLE, raising=False)
    if given is not None:
        monkeypatch.setenv(resources.VISIBLE, given)
    assert resources.gpus() == wanted


def test_a_tensor_that_does_not_fit_is_refused_before_it_is_made() -> None:
    with (
        pytest.raises(UsageError, match=r"^--hidden 99999999999: a tensor of shape \(9+, 4\) needs 1\.6 TB, but "),
        resources.Allocations({"hidden": (64, 99_999_999_999), "steps": 4}),
    ):
        torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Linear(4, 99_999_999_999))


def test_memory_for_gradients_and_optimizers_is_checked_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(9, 10), torch.nn.ReLU(), torch.nn.Linear(10, 1))  # 111 float32
    learner = learner_for(net, torch.optim.Adam(net.parameters()))
    monkeypatch.setattr(resources, "free_memory", lambda: 4 * 4 * 111)
    resources.require_memory([learner])
    with pytest.raises(UsageError, match=r"^2 runs at a time need .* lower --jobs, or use smaller sizes"):
        resources.require_memory([learner], runs=2)
    monkeypatch.setattr(resources, "free_memory", lambda: 4 * 4 * 111 - 1)
    with pytest.raises(UsageError, match=r"^the run needs 0 MB more for gradients and optimizers"):
        resources.require_memory([learner])


@pytest.mark.parametrize(
    "make",
    [
        lambda n: torch.empty(n, n),
        lambda n: torch.zeros((n, n)),
        lambda n: torch.ones(size=(n, n)),
        lambda n: torch.full((n, n), 1.0),
        lambda n: torch.eye(n),
        lambda n: torch.eye(n=n, m=n),
        lambda n: torch.randn(n, n, generator=torch.Generator()),
        lambda n: torch.zeros(1).new_empty(n, n),
        lambda n: torch.zeros_like(torch.zeros(1).expand(n, n)),
        lambda n: torch.zeros(1).expand(n, n).clone(),
        lambda n: torch.nn.Embedding(n, n),
        lambda n: torch.nn.LSTM(1, n),
    ],
)
def test_all_ways_to_make_a_tensor_are_looked_at(make: Callable[[int], object]) -> None:
    with pytest.raises(UsageError, match="of memory is free"), resources.Allocations({}):
        make(1_000_000)


def test_checking_memory_does_not_import_the_compiler() -> None:
    code = """
        import sys, torch
        from supple.engine.machine.resources import Allocations
        with Allocations({}):
            torch.nn.Linear(3, 4)
        assert "torch._dynamo" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
