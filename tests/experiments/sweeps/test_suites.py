"""The suites: each can be read, names nothing that its kind does not know, and says what it shows and what it takes."""

import csv
import io
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from supple.experiments.comparisons.comparison import Comparison
from supple.experiments.queue.queue import QueuedRun
from supple.experiments.sweeps.file import Scale, read_sweep
from supple.experiments.sweeps.study import Study
from supple.experiments.sweeps.suites import about, find_suite, suites
from supple.interventions import AtStart, parse_hook
from supple.networks import Units
from supple.registry import Call, parse_call
from supple.registry.errors import UsageError
from supple.scripts.main import dispatch
from supple.tracks.linear.settings import LinearSettings
from supple.tracks.vision.settings import VisionSettings

ROOT = Path(__file__).parents[3]
SCALES: tuple[Scale, ...] = ("small", "paper")
# what users have to name themselves, by the kind of run
NAMED = {
    "continual": {"model": "clip:small"},
    "sft": {"model": "smollm2", "learn": "reasoning-gym:chain_sum"},
    "pretrain": {"first": '["kjv"]', "second": '["brown"]'},
}


def studies(name: str, scale: Scale) -> list[Study]:
    """Return the studies of a suite, with what users name."""
    tables = tomllib.loads(find_suite(name).read_text())
    kinds = {table["kind"] for table in tables.values() if "kind" in table}
    named = {key: value for kind in kinds for key, value in NAMED.get(kind, {}).items()}
    return list(read_sweep(find_suite(name), scale, settings=named).studies)


def comparisons(study: Study) -> Iterator[Comparison]:
    for comparison, _ in study.comparisons(lambda folder, point, measure: 0.0).values():
        yield comparison


def hours(name: str) -> dict[str, float]:
    found: dict[str, float] = tomllib.loads(find_suite(name).read_text())["about"]["hours"]
    return found


@pytest.mark.parametrize("name", suites())
def test_a_suite_names_nothing_that_its_kind_does_not_know(name: str) -> None:
    for scale in SCALES:
        for study in studies(name, scale):
            for comparison in comparisons(study):
                comparison.kind_row.require_measure(comparison.leads)
                for point in comparison.points:
                    settings = comparison.settings_at(point)
                    settings.check()
                    for hook in settings.hook:
                        parse_hook(hook, AtStart())
                    Units(getattr(settings, "activation", None) or "relu")


@pytest.mark.parametrize("name", suites())
def test_what_was_published_stands_beside_runs_of_the_suite(name: str) -> None:
    for study in studies(name, "paper"):
        points = [point for comparison in comparisons(study) for point in comparison.points]
        rows = study.published.rows if study.published else {}
        assert rows.keys() <= {point.key for point in points}


@pytest.mark.parametrize("name", suites())
def test_a_suite_says_what_it_shows_and_what_its_small_form_does_not(name: str) -> None:
    text = find_suite(name).read_text()
    found = read_sweep(find_suite(name), "small").about
    assert all(found.get(key) for key in ("title", "source", "machine"))
    assert 0 < hours(name)["small"] <= 10
    assert re.search(r"^# Small: ", text, re.MULTILINE)
    assert about(name).startswith(f"{found['title']} ({found['source']}); --scale small ")


# L2-Init as printed in Tables 7 to 9 of the FIRE paper, by suite and network; the released code halves it
PRINTED = {
    "fire-warm-start": {"resnet18": 1e-3, "vit-tiny": 1e-3, "vgg16": 1e-3},
    "fire-continual": {"resnet18": 1e-5, "vit-tiny": 1e-4, "vgg16": 1e-5},
    "fire-class-incremental": {"vit-tiny": 1e-5, "vgg16": 1e-4},
}
CONTINUOUS = {"parseval", "l2_init", "cbp", "snr", "muon", "redo"}


def arms_of(name: str, scale: Scale) -> Iterator[tuple[Study, VisionSettings, Call, bool]]:
    """Yield the arms of a suite of images: study, settings, hook, and whether it acts from the first update on."""
    for study in studies(name, scale):
        for found in comparisons(study):
            assert isinstance(found.settings, VisionSettings)
            for arm in study.arms:
                if arm != "none":
                    call = parse_call(arm.partition("@")[0])
                    yield study, found.settings, call, study.fork_at == 0.0


@pytest.mark.parametrize("name", PRINTED)
def test_the_suites_of_fire_have_the_strengths_that_were_run(name: str) -> None:
    strengths = {
        settings.network: float(call.params["strength"])
        for _, settings, call, _ in arms_of(name, "paper")
        if call.name == "l2_init"
    }
    assert strengths == pytest.approx({network: printed / 2 for network, printed in PRINTED[name].items()})


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", PRINTED)
def test_methods_of_fires_suites_act_in_the_phases_of_the_released_code(name: str, scale: Scale) -> None:
    """It turns all that act throughout, and ReDo, off in the first phase of a warm start, and only there."""
    for _, _, call, from_the_start in arms_of(name, scale):
        assert from_the_start == (call.name in CONTINUOUS and name != "fire-warm-start"), call


@pytest.mark.parametrize("name", PRINTED)
def test_redo_acts_as_often_as_after_every_epoch(name: str) -> None:
    images = {"cifar-10": 50_000, "cifar-100": 50_000, "tiny-imagenet": 100_000}
    for study, settings, call, from_the_start in arms_of(name, "paper"):
        if call.name == "redo":
            (arm,) = (arm for arm in study.arms if arm.startswith("redo"))
            shares = [(task + 1) / settings.tasks for task in range(settings.tasks)] if from_the_start else [1.0]
            epoch = images[settings.dataset] * sum(shares) / len(shares) / settings.batch_size
            assert int(arm.partition("@every:")[2]) == pytest.approx(epoch, abs=1)


def test_suites_have_titles_of_their_own_and_are_installed() -> None:
    assert list(suites()) == sorted(file.stem for file in (ROOT / "experiments/sweeps/suites").glob("*.toml"))
    titles = [read_sweep(file).about["title"] for file in suites().values()]
    assert len(set(titles)) == len(titles)


RUNS = {  # of one seed in a suite, at the small scale and at the paper's; points of a tuning are runs, too
    "linear-continual": (2, None),
    "frozen-lake": (35, 175),
    "gym-control": (434, None),
    "nine-rooms": (83, 214),
    "priming": (100, 30),
    "replay-ratio": (6, 20),
    "cycling-mujoco": (18, None),
    "learning": (76, None),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_suite_passes_all_checks_of_a_sweep_and_has_as_many_runs_as_were_planned(name: str, tmp_path: Path) -> None:
    for scale, runs in zip(SCALES, RUNS[name], strict=True):
        if runs is not None:  # building the networks of all arms takes seconds
            jobs = read_sweep(find_suite(name), scale).preview(tmp_path / "out")
            assert len({job.folder for job in jobs}) == len(jobs)
            assert sum(len(job.spec.seeds) for job in jobs) == runs


def test_a_suite_goes_by_its_name_and_takes_settings_that_it_cannot_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[QueuedRun] = []
    monkeypatch.setattr("supple.scripts.sweep.print_estimates", lambda every, jobs: found.extend(every))
    words = ["--scale", "small", "--dry-run", "--setting", "updates_per_task=5", "tasks=random,random"]
    dispatch(["sweep", "linear-continual", "--out", str(tmp_path / "out"), *words])
    assert {job.spec.seeds for job in found} == {(0,), (1,)}
    for settings in (job.spec.settings for job in found):
        assert isinstance(settings, LinearSettings)
        assert (settings.updates_per_task, settings.tasks, settings.n_hidden) == (5, "random,random", 10)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "[methods] --model is missing: a pre-trained model, such as a folder or smollm2"),
        (["--setting", "modle=x"], "moram-trace.toml: continual has no setting 'modle': did you mean 'model'"),
        (["--setting", "model=clip:small", "batch_size=many"], "settings of continual: batch_size should be"),
    ],
)
def test_what_a_suite_needs_is_said_in_one_line(words: list[str], says: str, tmp_path: Path) -> None:
    with pytest.raises((UsageError, SystemExit), match=re.escape(says)) as found:
        dispatch(["sweep", "moram-trace", "--out", str(tmp_path / "out"), *words])
    assert "\n" not in str(found.value)


def test_a_suite_of_another_name_is_not_there() -> None:
    with pytest.raises(UsageError, match="no suite with this name: did you mean 'sib'"):
        find_suite("sibb")


def in_words(hours: float | None) -> str:
    if hours is None:
        return "not estimated"
    minutes = f"{max(round(60 * hours), 1)} min" if hours < 1 else f"{hours:.0f} h"
    return minutes if hours < 72 else f"{hours / 24:,.0f} days"


def test_the_table_of_the_page_is_that_of_the_files() -> None:
    """Where it is not, the message has the rows as they should be."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("suite", "what it shows", "from", "small", "paper"))
    for name, file in suites().items():
        found = read_sweep(file).about
        own = [hours(name).get(scale) for scale in SCALES]
        rows.writerow((name, found["title"], found["source"], *map(in_words, own)))
    assert text.getvalue() == (ROOT / "docs/reference/suites.csv").read_text(), text.getvalue()
