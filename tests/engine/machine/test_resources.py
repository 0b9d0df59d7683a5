"""The processors and GPUs that a process may use."""

import pytest

from supple.engine.machine import resources


def test_processors_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 5})
    assert resources.cpus() == 3


@pytest.mark.parametrize(
    ("workers", "threads", "wanted"),
    [(2, None, 4), (3, "1", 1), (1, "16", 8), (20, None, 1)],
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
