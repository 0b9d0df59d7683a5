"""What all tests share: one thread for PyTorch, `supple` in a process of its own or in this one, equal bytes."""

import gc
import multiprocessing
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest
import torch
from safetensors.torch import load_file

from supple.engine.loop import Warn
from supple.experiments.queue import workers
from supple.experiments.queue.queue import Queue
from supple.experiments.queue.workers import Watch
from supple.registry.cache import cache_folder
from supple.scripts.cli.console import run as run_script
from supple.scripts.main import dispatch

NEEDED = (  # imported late, by each process anew unless they are here before it is forked
    *("sympy", "scipy.stats", "torch._dynamo", "mujoco", "gymnasium.envs.mujoco", "torch.utils.tensorboard"),
    *("supple.agents.ppo.work", "supple.agents.dqn.work", "supple.agents.sac.work", "supple.agents.report.scores"),
)
LONGEST = ("test_zoo.py", "test_launchers.py", "test_conformance.py", "vision/test_work.py")  # half a minute and more
SLOW_FILE = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.slow\b", re.MULTILINE)

gc.disable()  # until all files are imported: see pytest_collection_finish
# What a process wrote is lost if the power fails, not if the process is killed, as tests do. So only tests of storage
# wait for the disk, which took a sixth of the time of runs with many checkpoints. Others require an open file.
really_sync, os.fsync = os.fsync, os.fstat
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # or it warns, on stderr, of processes that are forked
# A process in the background of a script ignores one of these, one under nohup the other; what tests start would too.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
# On a busy machine, examples may take longer than Hypothesis allows. Its other settings, such as those for CI, stay.
patient = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("patient", patient)
hypothesis.settings.load_profile("patient")
torch.set_num_threads(1)  # the networks here are small, and the tests run side by side
# Where PyTorch is built for CUDA, a process whose first gradient is computed within torch.compile cannot compute any
# after a fork. `start` below forks, so the first gradient is this one.
torch.zeros((), requires_grad=True).backward()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files that are slow as a whole where `-m "not slow"` leaves them out: some import for seconds."""
    if config.getoption("markexpr") != "not slow" or collection_path.suffix != ".py":
        return None
    return bool(SLOW_FILE.search(collection_path.read_text())) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files: at the end, one process would be busy with such a file while the other is idle."""
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONGEST))


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what was imported and stays, which took 8 % of the time of small files."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what tests decode out of the user's cache folder. What was fetched into it can still be read."""
    cache = tmp_path_factory.mktemp("cache")
    for fetched in cache_folder().glob("*"):
        if fetched.name not in ("decoded", "tokens"):
            (cache / fetched.name).symlink_to(fetched)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUPPLE_CACHE", str(cache))
        yield


def run_here(jobs: Queue, workers: int, watch: Watch, warn: Warn) -> None:
    """Stands in for the worker processes: one job after another is done in this process."""
    Queue(jobs).work_off(lambda job, held: job.train(held, partial(watch, job), warn))


@contextmanager
def in_this_process() -> Iterator[None]:
    """Comparisons without workers and without a report, which take seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "train_queue", run_here)
        patch.setattr("supple.scripts.cli.reporting.show_report", lambda path, video: None)
        yield


@pytest.fixture(scope="session")
def here() -> Callable[[], AbstractContextManager[None]]:
    """`with here():` comparisons are made in this process."""
    return in_this_process


def start(words: Sequence[str], errors: Path, first: Callable[[], object] = list) -> int:
    """A process that runs `supple` with these words, forked from this one, since importing PyTorch again would take
    seconds; what it says on stderr goes to `errors`. Returns its number. `first` is called in it before all else."""
    if child := os.fork():
        return child
    try:
        first()
        with errors.open("w") as file, open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(file.fileno(), 2)
            sys.stderr, sys.stdout = file, nowhere
            sys.argv = ["supple", *words]
            warnings.resetwarnings()  # pytest shows those of libraries too, which Python itself does not
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                run_script(dispatch)
            except SystemExit as stop:
                for stream in (file, sys.stderr):  # a plug-in may have closed the one, and have got another
                    if not stream.closed:
                        stream.flush()
                os._exit(int(stop.code or 0))
            except BaseException:
                traceback.print_exc(file=file)
    finally:
        os._exit(70)


@pytest.fixture(scope="session")
def process() -> Callable[..., int]:
    """`process(words, errors, first=list)` runs `supple` in a process of its own."""
    for name in NEEDED:
        with suppress(ImportError):  # an extra
            import_module(name)
    return start


@pytest.fixture
def without_figures() -> Iterator[None]:
    """Reports are written without their figures, also by processes that are forked from this one."""
    from tests.figures import empty_figures  # imports matplotlib

    with empty_figures():
        yield


class Forks:
    """Stands in for multiprocessing's way of starting processes anew, in which each imports PyTorch for seconds."""

    def __init__(self) -> None:
        self.ends: list[Connection] = []

    def Pipe(self, duplex: bool = True) -> tuple[Connection, Connection]:
        self.ends += (pipe := multiprocessing.Pipe(duplex))
        return pipe

    def Process(self, target: Callable[..., object], args: tuple[Any, ...], **more: Any) -> BaseProcess:
        return multiprocessing.get_context("fork").Process(target=self.run, args=(target, args), **more)

    def run(self, target: Callable[..., object], args: tuple[Any, ...]) -> None:
        for end in self.ends:
            if not any(end is arg for arg in args):  # else this process would wait for its own end of a pipe to close
                end.close()
        target(*args)


@contextmanager
def fork_workers() -> Iterator[None]:
    """Fork the processes that train runs of a comparison, and those of environments, from this one.

    Tests of the processes themselves, and of what is sent to them, do without this.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "multiprocessing", SimpleNamespace(get_context=lambda method: Forks()))
        patch.setattr("supple.envs.workers.get_context", lambda method: Forks())
        yield


@pytest.fixture(scope="session")
def forking() -> Callable[[], AbstractContextManager[None]]:
    """`with forking():` workers are forked."""
    return fork_workers


@pytest.fixture
def forked_workers() -> Iterator[None]:
    with fork_workers():
        yield


class Same:
    """Runs compared byte for byte; only clocks may differ."""

    def log(self, run: Path, name: str) -> bytes:
        """Return the log with this name without its times."""
        return re.sub(rb'"(time|seconds)": [\d.e-]+', b"", (run / f"{name}.jsonl").read_bytes())

    def state(self, checkpoint: Path) -> dict[str, bytes]:
        """Return the bytes of every tensor in a checkpoint's folder, by file and name."""
        files = sorted(checkpoint.glob("*.safetensors"))
        return {f"{f.name}{name}": t.numpy().tobytes() for f in files for name, t in load_file(f).items()}

    def last_state(self, run: Path) -> dict[str, bytes]:
        return self.state(max((run / "checkpoints").iterdir()))

    def assert_states(self, run: Path, reference: Path) -> None:
        """Assert that two runs have the same checkpoints, with the same bits in every tensor."""
        ours, theirs = (
            {
                f"{folder.name}{name}": x
                for folder in path.glob("checkpoints/*")
                for name, x in self.state(folder).items()
            }
            for path in (run, reference)
        )
        assert ours.keys() == theirs.keys()
        assert [name for name in ours if ours[name] != theirs[name]] == []

    def assert_runs(self, run: Path, reference: Path) -> None:
        """Assert that two runs have the same checkpoints and logs."""
        self.assert_states(run, reference)
        for name in ("episodes", "metrics", "events"):
            assert self.log(run, name) == self.log(reference, name)


@pytest.fixture(scope="session")
def same() -> Same:
    return Same()
