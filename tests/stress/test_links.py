"""Links inside the folders of runs, comparisons and sweeps are refused by every command, and not followed.

    pytest -s tests/stress/test_links.py

Every part of a folder is replaced by a link to a folder with canaries, and every command is tried on the result.
"""

import contextlib
import io
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from supple import experiments
from supple.engine.loop import Loop
from supple.engine.runs import open_run
from supple.engine.storage import checkpoint, files
from supple.experiments.comparisons.folder import read_comparison
from supple.experiments.queue import workers
from supple.experiments.queue.queue import Queue, QueuedRun
from supple.experiments.sweeps import sweep
from supple.registry.errors import RunError, UsageError
from supple.scripts.cli.console import run as run_script
from supple.scripts.main import dispatch
from tests.conftest import run_here

LINEAR = "linear --tasks semantic,reversal --updates-per-task 60 --checkpoint-every 50 --keep-checkpoints 3"
TRAIN = f"train {LINEAR} --keep-at 50 100 --keep-best True"
COMPARE = f"compare {LINEAR} --fork-at-task 1 --arm none --arm rebalance(lam=5)@task --vary learning_rate=0.01,0.02"
SWEEP = """
[rates]
kind = "linear"
arms = ["none", "rebalance(lam={lam})@task"]
seeds = "0-1"
settings = { tasks = "semantic,reversal", updates_per_task = 60, checkpoint_every = 50 }
search = { points = 2, lam = { low = 1.0, high = 5.0 }, seeds = "7", share = 0.9 }
"""
ARM = "seed-0/learning_rate=0.01/rebalance_lam=5_task"
OF_A_RUN = [
    "checkpoints", "checkpoints/000000000100", "checkpoints/000000000100/state.json", "checkpoints/tmp-1",
    "checkpoints/000000000100/state.safetensors", "checkpoints/7", "kept", "kept/000000000050", "kept/000000000100",
    "kept/000000000999", "kept/tmp-1", "best", "best/000000000060", "best/000000000999", "best/tmp-1", "tensorboard",
    "tensorboard/events.out.tfevents", "model", "tmp-model-1", "trackers", "trackers/wandb", "trackers/mlflow.db",
    "config.json", "config.json.tmp", "metrics.jsonl", "tasks.jsonl", "events.jsonl", "claim.json", "tracked.json",
    "tracked.json.tmp", "report", "report.tmp", "report.old", "report/scores.json", "report/tables", "notes",
]  # fmt: skip
OF_A_COMPARISON = [
    "seed-0", "seed-1", "seed-0/learning_rate=0.01", "seed-0/learning_rate=0.02", "seed-0/learning_rate=0.01/trunk",
    "seed-0/learning_rate=0.01/none", ARM, f"{ARM}/checkpoints", f"{ARM}/kept", f"{ARM}/best", f"{ARM}/outcome.json",
    f"{ARM}/outcome.json.tmp", f"{ARM}/claim.json", f"{ARM}/config.json", f"{ARM}/tensorboard",
    "seed-0/learning_rate=0.01/trunk/checkpoints/000000000060", "comparison.json", "comparison.json.tmp", "report",
    "report.tmp", "report.old", "report/runs", "trackers", "seed-7",
]  # fmt: skip
OF_A_SWEEP = [
    "rates", "rates/seed-0", "rates/seed-0/none", "rates/seed-0/none/kept", "rates/seed-0/none/checkpoints",
    "rates/tuning", "rates/tuning/seed-7", "rates/tuning/seed-7/none", "rates/tuning/comparison.json",
    "rates/tuned.json", "rates/tuned.json.tmp", "rates/comparison.json", "rates/comparison.json.tmp", "rates/report",
    "rates/report.tmp", "sweep.json", "sweep.json.tmp", "report", "report.tmp", "report.old", "trackers", "workers",
    "other",
]  # fmt: skip
COMMANDS: dict[str, list[str]] = {
    "run": ["resume", "report", "doctor", "train", "API resume"],
    "comparison": ["resume", "resume --retry-failed", "worker", "report", "compare", "API resume"],
    "sweep": ["resume", "resume --retry-failed", "worker", "report", "sweep", "API resume"],
}
PLACES = {"run": OF_A_RUN, "comparison": OF_A_COMPARISON, "sweep": OF_A_SWEEP}
Said = tuple[int, str]


def say(*words: object) -> Said:
    """Return the exit status of `supple` with these words, and what it printed on stderr."""
    errors, before = io.StringIO(), sys.argv
    sys.argv = ["supple", *map(str, words)]
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            run_script(dispatch)
    except SystemExit as stop:
        return int(stop.code or 0), errors.getvalue()
    finally:
        sys.argv = before
    raise AssertionError("no exit")


def tree(root: Path) -> dict[str, tuple[int, int, bytes | str]]:
    """Return everything in a folder by its path: type, time of the last change, and contents."""
    found: dict[str, tuple[int, int, bytes | str]] = {}
    for path in sorted(root.rglob("*")):
        about = path.lstat()
        contents = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        found[str(path.relative_to(root))] = (about.st_mode, about.st_mtime_ns, contents)
    return found


def canaries(folder: Path) -> None:
    """Put files into a folder whose names are those of what supple removes."""
    for name in ("000000000999", "7", "tmp-1", "tables", "seed-0/none", "offline-run-1-x"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "photo").write_text("mine")
    (folder / "photo").write_text("mine")


def swap(place: Path, outside: Path) -> None:
    """Replace a place by a link to `outside`, where its contents are moved to, beside canaries."""
    target = outside / place.name
    if place.exists():
        shutil.move(place, target)
    elif place.suffix in (".json", ".tmp", ".db", ".jsonl") and place.name != "report.tmp":
        target.write_text("mine")
    else:
        target.mkdir()
    if target.is_dir():
        canaries(target)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with a run, a comparison and a sweep, each with something left to train."""
    path = tmp_path_factory.mktemp("made")
    (path / "sweep.toml").write_text(SWEEP)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(action="ignore"):
        patch.setattr(workers, "train_queue", run_here)
        assert say(*TRAIN.split(), "--out", path / "run")[0] == 0
        assert say("report", path / "run")[0] == 0
        assert say(*COMPARE.split(), "--seeds", "0", "1", "--out", path / "comparison")[0] == 0
        assert say("sweep", path / "sweep.toml", "--out", path / "sweep")[0] == 0
        for run in (path / "run", path / "comparison" / ARM, path / "sweep/rates/seed-0/none"):
            shutil.rmtree(checkpoint.folders_of(run / "checkpoints")[-1])
            if (run / "outcome.json").exists():
                (run / "outcome.json").unlink()
        (path / "run/model").mkdir()
        (path / "run/trackers/wandb").mkdir(parents=True)
        yield path


def words_of(command: str, kind: str, path: Path, made: Path) -> list[object]:
    if command == "sweep":
        return ["sweep", made / "sweep.toml", "--out", path]
    if command in ("train", "compare"):
        return [*(TRAIN if command == "train" else COMPARE).split(), "--out", path]
    first, *rest = command.split()
    return [first, path, *rest]


def refused(command: str, kind: str, path: Path, made: Path) -> str:
    """Return what was wrong with the way in which a command refused a folder, or "" if it was right."""
    if command.startswith("API"):
        try:
            experiments.resume(path, warn=lambda line: None)
        except (RunError, UsageError) as error:
            return "" if "\n" not in str(error) else f"several lines: {error}"
        return "was not refused"
    code, said = say(*words_of(command, kind, path, made))
    if code not in (1, 2):
        return f"exit {code}: {said}"
    return "" if said.count("\n") == 1 and "Errno" not in said else f"said {said!r}"


def tried(attempts: dict[str, Callable[[], str]], name: str) -> None:
    """Make all attempts, print how many held, and fail with what did not."""
    wrong = {what: problem for what, attempt in attempts.items() if (problem := attempt())}
    print(f"\n{name}: {len(attempts)} attempts, {len(attempts) - len(wrong)} held")
    assert not wrong, "\n".join(f"{what}: {problem}" for what, problem in wrong.items())


@pytest.mark.parametrize("kind", PLACES)
def test_a_link_inside_a_folder_is_refused_and_nothing_changes(kind: str, made: Path, tmp_path: Path) -> None:
    attempts: dict[str, Callable[[], str]] = {}
    for number, (place, command) in enumerate((p, c) for p in PLACES[kind] for c in COMMANDS[kind]):

        def attempt(place: str = place, command: str = command, number: int = number) -> str:
            path, outside = tmp_path / f"{number}/{kind}", tmp_path / f"{number}/outside"
            outside.mkdir(parents=True)
            shutil.copytree(made / kind, path)
            swap(path / place, outside)
            before = tree(path.parent)
            problem = refused(command, kind, path, made)
            if (after := tree(path.parent)) != before:
                changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
                problem += f"; changed: {changed}"
            shutil.rmtree(path.parent)
            return problem

        attempts[f"{place}, {command}"] = attempt
    tried(attempts, f"links in a {kind}")


def test_the_folder_that_the_user_names_may_be_a_link(made: Path, tmp_path: Path) -> None:
    def attempt(kind: str, command: str) -> str:
        place = tmp_path / f"{kind} {command}"
        place.mkdir()
        shutil.copytree(made / kind, place / "real")
        (place / "link").symlink_to("real")
        code, said = say(*words_of(command, kind, place / "link", made))
        return "" if code == 0 else f"exit {code}: {said}"

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(action="ignore"):
        patch.setattr(workers, "train_queue", run_here)
        tried(
            {
                f"{kind}, {command}": lambda kind=kind, command=command: attempt(kind, command)  # type: ignore[misc]
                for kind, commands in COMMANDS.items()
                for command in commands
                if command in ("resume", "report", "worker", "sweep")
            },
            "roots that are links",
        )


def test_a_new_folder_may_be_a_link_or_lie_behind_one(tmp_path: Path) -> None:
    (tmp_path / "disk/empty").mkdir(parents=True)
    (tmp_path / "runs").symlink_to("disk")
    (tmp_path / "link").symlink_to("disk/empty")
    tried(
        {
            name: lambda name=name: (
                "" if (found := say(*TRAIN.split(), "--out", tmp_path / name))[0] == 0 else str(found)
            )  # type: ignore[misc]
            for name in ("runs/a", "link")
        },
        "new folders behind links",
    )
    assert (tmp_path / "disk/a/config.json").exists()
    assert (tmp_path / "disk/empty/config.json").exists()


def test_doctor_removes_only_its_own_files(made: Path, tmp_path: Path) -> None:
    doctor = ["doctor", made / "run", "--updates", "2", "--out"]
    for name in ("tmp-page", "disk/page"):
        (tmp_path / name).mkdir(parents=True)
    canaries(tmp_path / "tmp-page")
    (tmp_path / "page").symlink_to("disk/page")
    before = tree(tmp_path / "tmp-page")

    def attempt(name: str) -> str:
        code, said = say(*doctor, tmp_path / name)
        if tree(tmp_path / "tmp-page") != before:
            return "it changed the folder beside it"
        return "" if code == 0 and (tmp_path / name / "doctor.json").exists() else f"exit {code}: {said}"

    def filled() -> str:
        """Fill a folder that was empty at the start."""
        (tmp_path / "late").mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("supple.scripts.doctor.find_source", lambda o: lambda o, remarks: fill())
            code, said = say(*doctor, tmp_path / "late")
        held = (tmp_path / "late/photo").exists() and code == 1 and said.count("\n") == 1
        return "" if held else f"exit {code}: {said}"

    def fill() -> Iterator[tuple[None, dict[str, object]]]:
        canaries(tmp_path / "late")
        yield None, {}

    tried(
        {"a link to an empty folder": lambda: attempt("page"), "a new folder": lambda: attempt("own"), "late": filled},
        "the doctor's page",
    )


@pytest.mark.parametrize("place", ["report", "report.tmp", "report.old"])
def test_a_report_replaces_only_a_report(place: str, made: Path, tmp_path: Path) -> None:
    def attempt(fill: Callable[[Path], object], name: str, command: Sequence[object]) -> str:
        folder = tmp_path / name
        shutil.copytree(made / "run", folder)
        shutil.rmtree(folder / "report")
        fill(folder / place)
        before = tree(folder)
        code, said = say("report", *(folder if word == "RUN" else word for word in command))
        if tree(folder) != before:
            return f"changed, exit {code}: {said}"
        return "" if code == 2 and said.count("\n") == 1 else f"exit {code}: {said}"

    def run(path: Path) -> None:
        shutil.copytree(made / "run", path)

    def file(path: Path) -> None:
        path.write_text("mine")

    def folder(path: Path) -> None:
        path.mkdir()
        canaries(path)

    attempts = {
        f"{fill.__name__} {words}": lambda fill=fill, words=words, at=at: attempt(fill, str(at), words)  # type: ignore[misc]
        for at, (fill, words) in enumerate(
            (fill, words) for fill in (run, file, folder) for words in (["RUN"], [made / "run", "--out", "RUN"])
        )
    }
    tried(attempts, f"folders called {place}")


LATE = ["checkpoints", "kept", "best", "checkpoints/000000000050", "kept/000000000050", "best/000000000060"]


@pytest.mark.parametrize("place", LATE)
def test_a_link_that_appears_during_training_is_not_followed(place: str, made: Path, tmp_path: Path) -> None:
    path, outside = tmp_path / "run", tmp_path / "outside"
    shutil.copytree(made / "run", path)
    outside.mkdir()
    behind: dict[str, object] = {}

    def progress(step: int) -> None:
        if not behind:
            swap(path / place, outside)
            behind.update(tree(outside))

    with contextlib.suppress(RunError):
        open_run(path, lambda line: None).train(progress)
    assert tree(outside) == behind


@pytest.mark.parametrize("place", ["kept", "best"])
def test_a_link_that_appears_before_removals_is_not_followed(
    place: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, outside = tmp_path / "run", tmp_path / "outside"
    shutil.copytree(made / "run", path)
    outside.mkdir()
    whole = Loop._forget_later

    def late(loop: Loop, step: int) -> None:
        swap(path / place, outside)
        before = tree(outside)
        try:
            whole(loop, step)
        finally:
            assert tree(outside) == before

    monkeypatch.setattr(Loop, "_forget_later", late)
    with pytest.raises(files.NotPlain, match=f"{place}: a symbolic link"):
        open_run(path, lambda line: None).train(lambda step: None)


@pytest.mark.parametrize("place", ["seed-1", "seed-1/learning_rate=0.01", "seed-1/learning_rate=0.01/none"])
def test_a_queue_does_not_follow_links_that_appear_while_it_trains(place: str, made: Path, tmp_path: Path) -> None:
    path, outside = tmp_path / "comparison", tmp_path / "outside"
    shutil.copytree(made / "comparison", path)
    for file in path.glob("seed-1/*/*/outcome.json"):
        file.unlink()
    outside.mkdir()
    jobs = sweep.open_queue(path)
    before: list[object] = []

    def attempt(job: QueuedRun, held: object) -> None:
        if not before:
            swap(path / place, outside)
            before.append(tree(outside))
        job.train(held, lambda step, end: None, lambda line: None)  # type: ignore[arg-type]

    first = [job for job in jobs if job.open and job.spec.seeds == (0,)]
    with pytest.raises(files.NotPlain, match=r"a symbolic link"):
        Queue([*first, *(job for job in jobs if job.open and job.spec.seeds == (1,))]).work_off(attempt)
    assert tree(outside) == before[0]
    assert read_comparison(path).queue(path)
