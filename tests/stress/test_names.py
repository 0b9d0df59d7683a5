"""Names of users against every folder that supple makes: refused at the start in one line, or trained and reported.

pytest -s tests/stress/test_names.py
"""

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from torch import nn

from supple import reports as report
from supple.engine.kinds import Preset, presets
from supple.engine.loop import BEST, KEPT
from supple.engine.runs import EXPORT
from supple.engine.storage import names
from supple.engine.storage.run_directory import CHECKPOINTS
from supple.experiments.comparisons import folder as comparisons
from supple.experiments.comparisons.points import Point, name_seeds
from supple.experiments.queue import workers
from supple.experiments.queue.queue import OUTCOME
from supple.experiments.sweeps import sweep
from supple.experiments.sweeps.tuning import TUNING
from supple.interventions import Learner, Reinitialization, interventions
from supple.registry.errors import UsageError
from tests.conftest import run_here
from tests.stress.test_links import say, tree, tried

TASKS = "linear --tasks semantic,reversal --updates-per-task 6"
SETTINGS = 'settings = { tasks = "semantic,reversal", updates_per_task = 6 }'
OF_SWEEPS = [
    *names.OWN, *(f"{name}.tmp" for name in names.OWN), "Report", "TUNING", "Sweep.JSON", "Report.Tmp", "Workers",
    "Trackers", "ſweep.json", "ｒeport", "seed-0", "seed-12", "seeds-0-1", "Seed-3", "SEEDS-0-9", "ſeed-0",
]  # fmt: skip
OF_SYSTEMS = [
    "con", "CON", "nul", "prn", "aux", "com1", "LPT9", "con.txt", "NUL.tar.gz", "aux.", "com¹", "x.", "x..", "...",
    ".", "..", "x" * 256, "é" * 128,
]  # fmt: skip
NO_NAMES = [
    "",
    " ",
    "a/b",
    "../x",
    "a b",
    "a:b",
    "a*",
    "a?",
    'a"b',
    "a<b",
    "a|b",
    "a\\b",
    "a\tb",
    "a\x00b",
    "a\x1b[31m",
]
GOOD = [
    "rates", "a.b", "-x", "_", "é", "火", "runs", "model", "kept", "best", "checkpoints", "tables", "tensorboard",
    "reports", "report-1", "report.tmp.1", "tuned", "tmp-1", "trunk2", "seed", "seed-x", "seedling-1", "con1", "com10",
    "console", "0", "7", "000000000007", ".hidden", "x" * 255, "é" * 127, "defaults2", "none",
]  # fmt: skip
ALIKE = [("Rates", "rates"), ("é", "é"), ("ﬁre", "fire"), ("STRASSE", "straße"), ("K", "K")]


@pytest.fixture(scope="module", autouse=True)
def in_this_process() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(action="ignore"):
        patch.setattr(workers, "train_queue", run_here)
        yield


@pytest.fixture
def named() -> Iterator[Callable[[str], None]]:
    """`named("trunk")` registers an intervention that does nothing."""
    before = dict(interventions._entries)

    def register(name: str) -> None:
        class Nothing(Reinitialization):
            def __init__(self, scope: str = "all", contract: str = "uniform") -> None:
                super().__init__(scope, contract)

            def rewrite(self, module: nn.Module, learner: Learner, start: object, scope: object) -> list[str]:
                return []

        interventions.register(name)(Nothing)

    yield register
    interventions._entries.clear()
    interventions._entries.update(before)


@pytest.fixture
def preset() -> Iterator[Callable[[str], None]]:
    before = dict(presets._entries)

    def register(name: str) -> None:
        settings = {"tasks": "semantic,reversal", "updates_per_task": 6}
        presets._entries[name] = Preset(name, "a preset", "linear", settings=settings)

    yield register
    presets._entries.clear()
    presets._entries.update(before)


def refusal(out: Path, *words: object) -> str:
    """Return "" if a command is refused in one line and writes nothing, and otherwise what happened."""
    before = tree(out.parent)
    code, said = say(*words, "--out", out)
    if tree(out.parent) != before:
        return f"something was written: {code} {said}"
    return "" if code == 2 and said.count("\n") == 1 and "Errno" not in said else f"exit {code}: {said!r}"


def success(out: Path, runs: int, reports: int, *words: object) -> str:
    """Return "" if a command trains all its runs and writes all reports, and goes on when typed again."""
    code, said = say(*words, "--out", out)
    ended = [json.loads(file.read_text())["outcome"] for file in out.rglob(OUTCOME)]
    pages = [file for file in out.rglob("report/index.html") if file.is_file()]
    if code or ended != ["finished"] * runs or len(pages) != reports:
        return f"exit {code}: {said!r}, {ended}, {pages}"
    code, said = say("resume", out)
    return "" if code == 0 else f"resumed with exit {code}: {said!r}"


def swept(path: Path, *studies: str, more: str = "") -> list[object]:
    """Return the words that train a sweep of these studies."""
    entries = "\n".join(
        f"[{json.dumps(name)}]\nkind = 'linear'\narms = ['none']\n{SETTINGS}\n{more}" for name in studies
    )
    path.mkdir(parents=True, exist_ok=True)
    (path / "sweep.toml").write_text(entries)
    return ["sweep", path / "sweep.toml"]


def test_the_list_of_names_that_supple_uses_is_complete(tmp_path: Path) -> None:
    """It has every name in the folders of a sweep and of comparisons but those of studies, arms and variants."""
    search = "search = { points = 1, learning_rate = { low = 0.01, high = 0.1 }, seeds = '7', share = 0.9 }"
    assert success(tmp_path / "sweep", 2, 2, *swept(tmp_path / "words", "own", more=search)) == ""
    forked = [*TASKS.split(), "--fork-at-task", "1", "--arm", "none"]
    assert success(tmp_path / "comparison", 2, 1, "compare", *forked) == ""
    entries = {
        entry.name
        for folder in (*tmp_path.glob("*"), *tmp_path.glob("sweep/own"), *tmp_path.glob("sweep/own/tuning"))
        for entry in folder.iterdir()
        if folder.name != "words"
    } | {entry.name for entry in tmp_path.glob("comparison/seed-0/*")}
    assert {name for name in entries if not names.problem(name)} == {"own", "none"}
    known = {TUNING, sweep.FILE, comparisons.FILE, OUTCOME, report.FOLDER, report.TEMPORARY, report.OLD, names.TRUNK}
    assert known <= set(names.OWN)


def test_names_of_studies(tmp_path: Path) -> None:
    def attempt(number: int, *studies: str) -> str:
        return refusal(tmp_path / f"{number}/out", *swept(tmp_path / f"{number}", *studies))

    def good(number: int, study: str) -> str:
        return success(tmp_path / f"good {number}/out", 1, 2, *swept(tmp_path / f"good {number}", study))

    bad = [*((name,) for name in (*OF_SWEEPS, *OF_SYSTEMS, *NO_NAMES)), *ALIKE, ("a", "a.", "b")]
    attempts = {" ".join(map(repr, each)): lambda n=n, each=each: attempt(n, *each) for n, each in enumerate(bad)}  # type: ignore[misc]
    attempts |= {repr(name): lambda n=n, name=name: good(n, name) for n, name in enumerate(GOOD)}  # type: ignore[misc]
    tried(attempts, "names of studies")


def test_a_study_cannot_join_one_that_differs_in_case(tmp_path: Path) -> None:
    assert success(tmp_path / "out", 1, 2, *swept(tmp_path / "first", "rates")) == ""
    assert refusal(tmp_path / "out", *swept(tmp_path / "second", "Rates")) == ""


def test_names_of_arms(tmp_path: Path, named: Callable[[str], None]) -> None:
    plain = [
        "trunk",
        "report",
        "tuning",
        "con",
        "nul",
        "aux",
        "prn",
        "com1",
        "lpt3",
        "workers",
        "trackers",
        "Trunk",
        "NUL",
    ]
    for name in (*plain, "Fire", "TRUNK", "model", "kept", "best", "checkpoints", "seed", "tables"):
        named(name)
    forked, alone = (["compare", *TASKS.split(), *more] for more in (["--fork-at-task", "1"], ["--fork-at", "0"]))

    def arms(*texts: str) -> list[str]:
        return [word for text in texts for word in ("--arm", text)]

    bad = [
        *((forked, [name]) for name in plain), (alone, ["learning_rate=0.1", "learning_rate=0.1 "]),
        (forked, ["fire", "Fire"]), (forked, ["fire@task", "Fire@task"]), (forked, ["trunk", "TRUNK"]),
        (forked, ["snp(lam=0.5)", "snp(lam=0.5) "]), (alone, ["n_hidden=4", "n_hidden=4 "]),
    ]  # fmt: skip
    long = " + ".join(f"l2_init(strength=1e-{n})" for n in range(1, 20))
    good = [
        ["trunk@task", "report@task", "con@task", "model", "kept", "best", "checkpoints", "seed", "tables"],
        [long, "none"], [long, f"{long} + l2_init(strength=0.5)"],
    ]  # fmt: skip
    attempts = {
        f"{words[-1]} {texts}": lambda n=n, words=words, texts=texts: refusal(
            tmp_path / f"{n}/out", *words, *arms(*texts)
        )  # type: ignore[misc]
        for n, (words, texts) in enumerate(bad)
    }
    attempts |= {
        str(texts)[:60] + str(n): lambda n=n, texts=texts: success(  # type: ignore[misc]
            tmp_path / f"good {n}/out", 1 + len(texts), 1, *forked, *arms(*texts)
        )
        for n, texts in enumerate(good)
    }
    for n in range(len(bad)):
        (tmp_path / f"{n}").mkdir()
    tried(attempts, "names of arms")


def test_folders_of_arms_and_variants_do_not_overlap() -> None:
    """The folders of arms in one variant, and variants themselves, beside each other in a seed's folder."""
    bad = [
        [("a", "learning_rate=0.1"), ("b", "learning_rate=0.1/none")], [("a", "x=1/none"), ("b", "x=1/None")],
        [("a", "x=Relu/none"), ("b", "x=relu/snp")], [("a", "x=a./none")], [("a", "x=1/con")], [("a", "x=1/trunk")],
        [("a", "trunk"), ("b", "trunk/none")], [("a", ".."), ("b", "none")], [("a", "x=1/..")], [("a", "none/..")],
    ]  # fmt: skip
    good = [
        [("a", "x=1/none"), ("b", "x=1/fire"), ("c", "x=2/none")], [("a", "x=1/none"), ("b", "x=10/none")],
        [("a", "none"), ("b", "x=1/none")],
    ]  # fmt: skip

    def attempt(runs: list[tuple[str, str]], wrong: bool) -> str:
        try:
            names.require_apart(runs, [folder for _, folder in runs])
        except UsageError as error:
            return "" if wrong else str(error)
        return "accepted" if wrong else ""

    tried(
        {
            str(runs): lambda runs=runs, wrong=wrong: attempt(runs, wrong)
            for wrong in (True, False)
            for runs in (bad if wrong else good)
        },  # type: ignore[misc]
        "arms and variants",
    )


def test_names_of_presets(tmp_path: Path, preset: Callable[[str], None]) -> None:
    bad = [
        *((name, "pb") for name in ("tuning", "Tuning", "report", "report.tmp", "seed-0", "seeds-0-1", "con", "pb.")),
        *((name, "pb") for name in ("comparison.json", "tuned.json", "trackers")),
        ("a b", "a_b"), ("Pb", "pb"), ("/pb", "pb"),
    ]  # fmt: skip
    good = [("pa", "pb"), ("x" * 300, "pb"), ("火", "水"), ("model", "runs"), ("x.", ".."), ("pa.", "pb")]
    for name in {name for pair in (*bad, *good) for name in pair}:
        preset(name)

    def words(folder: str, pair: tuple[str, str]) -> list[object]:
        points = ", ".join(f"{{ preset = {json.dumps(name)} }}" for name in pair)
        path = tmp_path / folder
        path.mkdir()
        (path / "sweep.toml").write_text(f"[s]\nkind = 'linear'\narms = ['none']\npoints = [{points}]\n")
        return ["sweep", path / "sweep.toml"]

    attempts = {
        str(pair): lambda n=n, pair=pair: refusal(tmp_path / f"{n}/out", *words(f"{n}", pair))  # type: ignore[misc]
        for n, pair in enumerate(bad)
    }
    attempts |= {
        str(pair): lambda n=n, pair=pair: success(tmp_path / f"good {n}/out", 2, 3, *words(f"good {n}", pair))  # type: ignore[misc]
        for n, pair in enumerate(good)
    }
    tried(attempts, "names of presets")


def test_adding_presets_to_a_study_or_removing_them_is_refused(tmp_path: Path, preset: Callable[[str], None]) -> None:
    for name in ("pa", "pb"):
        preset(name)
    for n, (first, second) in enumerate((("", "points"), ("points", ""))):
        points = "points = [{ preset = 'pa' }, { preset = 'pb' }]\n"
        own = {
            True: f"[s]\nkind = 'linear'\narms = ['none']\n{points}",
            False: "[s]\nkind = 'linear'\narms = ['none']\npreset = 'pa'\n",
        }
        (tmp_path / f"{n}.toml").write_text(own[bool(first)].replace("preset = 'pa'\n", ""))
        code, said = say("sweep", tmp_path / f"{n}.toml", "--out", tmp_path / f"{n}")
        assert code == 0, said
        (tmp_path / f"{n}.toml").write_text(own[bool(second)].replace("preset = 'pa'\n", ""))
        assert refusal(tmp_path / f"{n}", "sweep", tmp_path / f"{n}.toml") == ""


def test_a_run_inside_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    """A run is not begun where another one keeps, replaces or removes its own."""
    assert success(tmp_path / "sweep", 1, 2, *swept(tmp_path / "words", "own")) == ""
    assert success(tmp_path / "comparison", 1, 1, "compare", *TASKS.split(), "--fork-at", "0", "--arm", "none") == ""
    assert say("train", *TASKS.split(), "--out", tmp_path / "run")[0] == 0
    inside = [
        *(f"run/{name}" for name in (BEST, KEPT, CHECKPOINTS, EXPORT, "report", "tensorboard", "trackers", "mine")),
        *(f"run/{name}/000000000007" for name in (BEST, KEPT, CHECKPOINTS)), "run/tmp-model-1", "comparison/seed-1",
        "comparison/report.tmp", "comparison/mine", "sweep/own/seed-9", "sweep/mine", "sweep/tuning",
    ]  # fmt: skip
    words = {
        "train": ["train", *TASKS.split()],
        "compare": ["compare", *TASKS.split(), "--fork-at", "0", "--arm", "none"],
        "sweep": swept(tmp_path / "words2", "own"),
        "doctor": ["doctor", tmp_path / "run", "--updates", "2"],
        "report": ["report", tmp_path / "run", tmp_path / "comparison/seed-0/none"],
    }
    attempts = {
        f"{name} {place}": lambda name=name, place=place: refusal(tmp_path / place, *words[name])  # type: ignore[misc]
        for name in words
        for place in inside
    }
    tried(attempts, "folders inside others")


def test_folders_of_stacks_of_many_seeds_can_be_made(tmp_path: Path) -> None:
    found = set()
    for n in (1, 2, 50, 90, 91, 100, 1000, 10_000):
        (tmp_path / (name := name_seeds(tuple(range(n))))).mkdir()
        (tmp_path / f"{name}" / Point("none", {}).folder).mkdir()
        found.add(name)
    assert len(found) == 8
    assert all(name.startswith("seed") for name in found)


def test_existing_runs_with_refused_names_resume(tmp_path: Path, named: Callable[[str], None]) -> None:
    """Folders that were begun before these names were refused: `con`, and arms that differ in case."""
    for name in ("con", "Fire"):
        named(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "require_apart", lambda runs, new: None)
        forked = ["compare", *TASKS.split(), "--fork-at-task", "1"]
        code, said = say(*forked, "--arm", "con", "--arm", "fire", "--arm", "Fire", "--out", tmp_path / "old")
    assert code == 0, said
    for file in tmp_path.glob("old/seed-0/*/outcome.json"):
        file.unlink()
    assert say("resume", tmp_path / "old")[0] == 0
    assert say("report", tmp_path / "old")[0] == 0
    with pytest.MonkeyPatch.context() as patch:  # but not where two runs really share one folder
        named("trunk")
        patch.setattr(names, "require_apart", lambda runs, new: None)
        say(*forked, "--arm", "trunk", "--out", tmp_path / "shared")
    code, said = say("resume", tmp_path / "shared")
    assert (code, said.count("\n")) == (2, 1)
    assert "would share the folder trunk" in said
    assert comparisons.read_comparison(tmp_path / "old").queue(tmp_path / "old")
