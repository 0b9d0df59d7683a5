"""The numbers of the results pages that suites train: of the committed rows, and of a sweep, in one frame."""

import json
import runpy
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from supple.experiments.comparisons.grid import Point
from supple.experiments.history.logs import read_log
from supple.experiments.queue.queue import QueuedRun
from supple.experiments.sweeps.file import read_sweep
from supple.experiments.sweeps.space import Space
from supple.experiments.sweeps.study import Study
from supple.experiments.sweeps.suites import find_suite
from supple.experiments.sweeps.sweep import Sweep
from tests.conftest import run_here
from tests.records import program
from tests.tracks.logs import write_idx

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
rows = program(ROOT / "docs" / "suite_rows.py")
suites = program(ROOT / "docs" / "suites.py")

RATE = "env=CartPole-v1 · reset@task + learning_rate=0.0003"
RELU = "activation=relu, learning_rate=0.00"
SLOPE = "activation=leaky_relu(negative_slope=0.4) · none"
# suite, page, study, arm, column, and how its cell begins
CELLS = [
    ("gym-control", "gym_control", "methods", RATE, "return", "315 [296, 333]"),
    ("gym-control", "gym_control", "methods", "env=Acrobot-v1 · spectral(strength=1e-3)", "return", "−95 [−99, −91]"),
    ("nine-rooms", "worlds", "tuned", "none", "mean return", "−5.8 [−8.0, −3.6]"),
    ("replay-ratio", "worlds", "replay-ratio", "replay_ratio=16.0 · none", "third 3", "−214"),
    ("cycling-mujoco", "cycling", "text", "activation=relu · none", "plasticity score, IQM", "0.33"),
    ("cycling-mujoco", "cycling", "text", "activation=relu · none", "cycle 3, dormant units, %", "22"),
    ("learning", "learning", "ppo", "env=Hopper-v5 · sb3", "return", "1,811 [1,535, 2,087]"),
    ("learning", "learning", "sac", "env=Hopper-v5 · none + log_std=squashed", "return", "504 [432, 577]"),
    ("slopes", "classifiers", "permuted", SLOPE, "online accuracy, last fifth, %", "84.83"),
    ("random-label-mnist", "classifiers", "activations", f"{RELU}01 · none", "test accuracy, %", "26.49"),
]  # fmt: skip


@pytest.fixture(scope="module")
def committed() -> Callable[[str], Any]:
    """Return the frame of a suite's committed rows, which is read once."""
    frames: dict[str, Any] = {}
    return lambda name: frames[name] if name in frames else frames.setdefault(name, suites.read(name))


def cell(name: str, frame: Any, study: str, arm: str, column: str) -> str:
    """Return a cell of the table."""
    header, *lines = suites.table(name, frame)
    (line,) = [line for line in lines if line[:2] == [study, arm]]
    return str(line[header.index(column)])


@pytest.mark.parametrize(("name", "page", "study", "arm", "column", "begins"), CELLS)
def test_a_number_of_the_committed_rows_is_on_its_page(
    committed: Callable[[str], Any], name: str, page: str, study: str, arm: str, column: str, begins: str
) -> None:
    number, _, interval = begins.partition(" [")
    found = cell(name, committed(name), study, arm, column)
    digits = len(number.partition(".")[2])
    mean = float(found.replace(",", "").replace("−", "-").split(" [")[0].split(": ")[0])
    assert f"{mean:,.{digits}f}".replace("-", "−") == number
    assert not interval or found.startswith(begins) or digits
    assert begins in (RESULTS / f"{page}.md").read_text()


def test_the_numbers_of_cycling_are_those_of_its_scores(committed: Callable[[str], Any]) -> None:
    """For every arm, environment and cycle, from the rows of the runs."""
    frame = committed("cycling-mujoco").set_index(["arm", "column", "seed"])["value"]
    labels, wanted = {*committed("cycling-mujoco")["arm"]}, {}
    scores = json.loads((RESULTS / "cycling" / "scores.json").read_text())["arms"]
    for arm, own in scores.items():
        (label,) = (label for label in labels if f"={arm}(" in label or f"={arm} " in label)
        wanted[label, "plasticity score, IQM", "all"] = own["plasticity_score"]["iqm"]
        wanted[label, "change of the gap, IQM", "all"] = own["change_of_the_gap_iqm"]
        columns = {f"{env}, {cycle}": values for env, of in own["returns"].items() for cycle, values in of.items()}
        columns |= {f"{cycle}, srank": values for cycle, values in own["srank"].items()}
        for column, values in columns.items():
            wanted |= {(label, column, seed): value for seed, value in zip(own["seeds"], values, strict=True)}
    assert len(scores) == 4
    assert {key: frame[key] for key in wanted} == pytest.approx(wanted)


def test_the_rule_of_the_suite_chooses_the_points_of_the_page() -> None:
    """From the committed scores of all points: the arms of the results are those that were run."""
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for env, file in (("CartPole-v1", "cartpole"), ("Acrobot-v1", "acrobot")):
        for line in (RESULTS / "worlds" / f"{file}.tuning.jsonl").read_text().splitlines():
            row = json.loads(line)
            scores[env, rows.arm_of(row["settings"])].append(fmean(row["levels"]))

    def score(folder: str, point: Point, measure: str) -> float:
        assert measure == "rollout_return"
        found = scores[point.variant["env"], point.arm]
        assert len(found) == 3, point.label
        return fmean(found)

    (study,) = [study for study in read_sweep(find_suite("gym-control")).studies if study.name == "methods"]
    tuned, results = study.comparisons(score)
    (comparison, _) = study.comparisons(score)[results]
    frame = suites.read("gym-control")
    ran = set(frame.loc[frame["study"] == "methods", "arm"])
    assert {point.label for point in comparison.points} == ran
    assert tuned == f"{results}/tuning"


def test_the_rule_of_nine_rooms_chooses_the_points_of_the_page() -> None:
    """The area under the curve, over all goals, of three seeds that the results do not use."""
    known = {}
    for name in ("parseval", "when"):
        arms = json.loads((RESULTS / "worlds" / f"nine-rooms-{name}.tuning.json").read_text())["arms"]
        known |= {label: np.mean(own["mean_return_per_seed"]) for label, own in arms.items()}
    (study,) = [study for study in read_sweep(find_suite("nine-rooms"), "small").studies if study.name == "tuned"]
    found, _ = study.comparisons(lambda folder, point, measure: known.get(point.arm, 0.0))["tuned"]
    chosen = {"parseval(strength=1e-4,scope=[encoder,hidden])", "fire@when:policy/entropy<0.1,least=2560"}
    assert chosen <= {point.arm for point in found.points}
    assert study.search
    assert (study.search.seeds, study.search.share) == ((100, 101, 102), 1.0)


# -- one small point of each suite -------------------------------------------------------------------------------------

TINY: Mapping[str, Any] = {"rollout_steps": 40, "minibatch_size": 40, "epochs": 1, "hidden": [8], "compile": "off"}
MUJOCO = {**TINY, "num_envs": 1, "max_episode_steps": 20, "physics": "single"}
PENDULUM = {"steps": 600, "learning_starts": 590, "hidden": [8], "compile": "off", "eval_episodes": 1}
PERIODS = ("steps_per_task", "checkpoint_every", "eval_every")
IMAGES = {"tasks": 5, "images": 48, "batch_size": 8, "device": "cpu", "compile": "off", "epochs": 1}
POINTS: dict[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {  # suite → study, settings, other entries
    "gym-control": (
        "methods",
        {**TINY, "cycles": 4, "steps_per_task": 80},
        {"arms": ("none + learning_rate={rate}",), "space": Space({"env": ["CartPole-v1"]})},
    ),
    "nine-rooms": ("nine-rooms", {**TINY, "max_episode_steps": 20, "steps_per_task": 80}, {"arms": ("none",)}),
    "priming": ("priming", PENDULUM, {"arms": ("none",), "space": Space({"priming_updates": [20]})}),
    "cycling-mujoco": (
        "text",
        {
            **MUJOCO,
            "adapter": 4,
            "steps_per_task": 160,
            "measure_every": 160,
            "eval_episodes": 1,
            "checkpoint_every": 160,
        },
        {"space": Space(listed=[{"activation": "relu"}, {"activation": "tanh"}])},
    ),
    "learning": ("ppo", {**MUJOCO, "steps": 400}, {"arms": ("none",), "space": Space({"env": ["Hopper-v5"]})}),
    "slopes": ("permuted", IMAGES, {"space": Space({"slope": [0.4]})}),
    "minatar-ppo": (
        "minatar-ppo",
        {**TINY, "num_envs": 2, "max_episode_steps": 20, **dict.fromkeys(PERIODS, 80)},
        {"arms": ("none",)},
    ),
    "slippery-ant": ("ten-million", {**MUJOCO, "cycles": 2, "steps_per_task": 160, "measure_every": 40}, {}),
    "ppo-epochs": (
        "ppo-epochs",
        {**MUJOCO, "steps": 240, "measure_every": 40},
        {"arms": ("none",), "space": Space({"epochs": [2]})},
    ),
    "sac-networks": (
        "pendulum-simba",
        {
            "cycles": 2,
            "steps_per_task": 400,
            "learning_starts": 790,
            "batch_size": 8,
            "actor_width": 8,
            "critic_width": 8,
            "compile": "off",
            "checkpoint_every": 400,
            "measure_every": 400,
        },
        {"arms": ("none",), "reference": "none"},
    ),
}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a few random images in MNIST's format."""
    folder, draw = tmp_path_factory.mktemp("digits"), np.random.default_rng(0)
    for split, count in (("train", 60), ("t10k", 20)):
        write_idx(folder, split, draw.integers(0, 255, (count, 8, 8), np.uint8), np.arange(count, dtype=np.uint8) % 10)
    return folder


def small_point(name: str, digits: Path) -> Study:
    """Return a study of a suite at one point and one seed, with few steps: as with `--setting`."""
    study_name, settings, entries = POINTS[name]
    sweep = read_sweep(find_suite(name), "paper" if study_name in ("text", "methods") else "small")
    (study,) = [study for study in sweep.studies if study.name == study_name]
    own = {**study.settings, **settings, **({"data": str(digits)} if study.kind == "vision" else {})}
    rates = {"rate": study.search.values["rate"]} if study.search else {}
    search = study.search and replace(study.search, values=rates, seeds=(100,), share=0.5)
    return replace(study, **{"settings": own, "seeds": (0,), "search": search, **entries})


def train(study: Study, path: Path) -> list[QueuedRun]:
    """Train a sweep to its end in this process, and return its runs."""
    while (queue := Sweep([study]).begin(path)).left:
        run_here(queue, 1, lambda *told: None, lambda line: None)
    assert not queue.failed
    return list(queue)


def mean_return(run: QueuedRun, start: float, end: float) -> float:
    return fmean(row["return"] for row in read_log(run.folder, "episodes") if start < row["step"] <= end)


def by_rollout(run: QueuedRun) -> float:
    """Return the mean over levels of the mean over rollouts of the mean return, of tasks of 80 and rollouts of 40."""
    means = [[], [], [], []]  # type: list[list[float]]
    for start in range(0, 320, 40):
        own = [row["return"] for row in read_log(run.folder, "episodes") if start < row["step"] <= start + 40]
        means[start // 80] += [fmean(own)] if own else []
    return fmean(map(fmean, means))


def accuracy(run: QueuedRun) -> float:
    return 100 * fmean(row["test_accuracy"] for row in read_log(run.folder, "tasks"))


# suite → the column of its page, and the number from the logs of the run
EXPECTED: dict[str, tuple[str, Callable[[QueuedRun], float]]] = {
    "gym-control": ("return", by_rollout),
    "nine-rooms": ("all goals", lambda run: fmean(mean_return(run, end - 20, end) for end in range(80, 401, 80))),
    "priming": ("evaluation", lambda run: read_log(run.folder, "metrics")[-1]["eval/return"]),
    "cycling-mujoco": ("Hopper-v5, cycle 1", lambda run: mean_return(run, 160 + 0.85 * 160, 320)),
    "learning": ("return", lambda run: fmean(row["return"] for row in read_log(run.folder, "episodes")[-100:])),
    "slopes": ("test accuracy, %", accuracy),
    "minatar-ppo": ("SpaceInvaders", lambda run: mean_return(run, 320 + 0.85 * 80, 400)),
    "slippery-ant": ("part 8 return", lambda run: mean_return(run, 280, 320)),
    "ppo-epochs": ("part 6 return", lambda run: mean_return(run, 200, 240)),
    "sac-networks": ("final return", lambda run: mean_return(run, 400 + 0.85 * 400, 800)),
}


@pytest.mark.parametrize("name", POINTS)
def test_a_sweep_of_a_suite_has_its_number_where_the_page_has_it(
    committed: Callable[[str], Any], name: str, digits: Path, tmp_path: Path
) -> None:
    study = small_point(name, digits)
    runs = [run for run in train(study, tmp_path / "out") if run.spec.labels.study == study.name]
    run = next(run for run in runs if run.spec.labels.arm not in (None, "fresh"))  # nor a trunk
    frame = suites.read(name, tmp_path / "out")
    header = suites.table(name, frame)[0]
    assert set(header) <= set(suites.table(name, committed(name))[0])
    column, expected = EXPECTED[name]
    label = Point(run.spec.labels.arm or "", run.spec.labels.variant).label
    found = cell(name, frame, study.name, label, column)
    assert float(found.replace(",", "").replace("−", "-")) == pytest.approx(expected(run), abs=0.006, rel=0.006)


def test_stable_baselines3_is_trained_with_the_settings_of_the_suite_and_has_a_row_in_its_table(
    digits: Path, tmp_path: Path
) -> None:
    beside = runpy.run_path(str(ROOT / "benchmarks" / "beside" / "learning.py"))
    train(small_point("learning", digits), tmp_path / "out")
    for _ in range(2):  # the second call finds that all is there
        beside["main"](beside["Options"](tmp_path / "out"))
    frame = suites.read("learning", tmp_path / "out")
    own = frame[frame["arm"] == "env=Hopper-v5 · sb3"]
    assert {"return", "seconds", "part 20"} <= set(own["column"])
    assert not own["column"].duplicated().any()
    assert float(cell("learning", frame, "ppo", "env=Hopper-v5 · sb3", "return")) > 0


@pytest.mark.parametrize(
    ("name", "figures"),
    [("learning", ["learning-ppo-1000k", "learning-ppo-303k", "learning-sac-100k"]), ("slopes", ["slopes"])],
)
def test_figures_of_the_pages_are_drawn_of_the_same_frame(
    committed: Callable[[str], Any], name: str, figures: list[str], tmp_path: Path
) -> None:
    drawn: dict[Path, Any] = {}
    module = runpy.run_path(str(ROOT / "docs" / "suite_figures.py"))
    module[name].__globals__["draw"] = lambda path, panels, x, y: drawn.update({path: panels})
    module[name](committed(name))
    assert sorted(path.stem for path in drawn if path.is_file()) == figures
    at, values = next(iter(next(iter(next(iter(drawn.values())).values())).values()))
    assert values.shape == ((9, len(at)) if name == "learning" else (3, len(at)))
    assert np.isfinite(values).all()
