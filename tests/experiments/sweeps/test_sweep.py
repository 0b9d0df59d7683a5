"""Sweeps: which runs a file comes to, how they are divided, and what happens when the file grows."""

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supple.engine.settings import RunSettings
from supple.engine.storage import signed_json
from supple.experiments.comparisons import folder as comparisons
from supple.experiments.history.collect import failures, load
from supple.experiments.queue.queue import QueuedRun
from supple.experiments.sweeps.file import read_sweep
from supple.experiments.sweeps.search import Search
from supple.experiments.sweeps.space import Choice, Random, Range, Space
from supple.experiments.sweeps.study import Published, Study
from supple.experiments.sweeps.sweep import Sweep, add_seeds, open_queue, open_sweep
from supple.registry.errors import UsageError
from supple.reports.pages.run_list import outcomes
from tests.experiments.conftest import Worked

LINEAR = {"tasks": "semantic,reversal", "updates_per_task": 20, "checkpoint_every": 10, "measure_every": 10}
Write = Callable[[str], Path]


def study(name: str = "lin", **changes: Any) -> Study:
    return Study(name, **{"kind": "linear", "settings": LINEAR, "seeds": (0,), "arms": ("none",), **changes})


def folders(jobs: list[QueuedRun], path: Path) -> set[str]:
    return {str(job.folder.relative_to(path)) for job in jobs}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> Path:
        (tmp_path / "sweep.toml").write_text(text)
        return tmp_path / "sweep.toml"

    return written


# -- which runs ---------------------------------------------------------------------------------------------------


def test_a_point_gives_settings_and_what_stands_in_braces(tmp_path: Path) -> None:
    """An arm without braces is there once, whatever the values that others have."""
    space = Space({"lam": [2, 5]}, [{"learning_rate": 0.1}, {"learning_rate": 0.2, "decay": 3}])
    arms = ("none", "rebalance(lam={lam})@task")
    settings = {**LINEAR, "updates_per_task": "{decay}0"}
    with pytest.raises(UsageError, match=re.escape("[lin] {decay}0: no point has a value for {decay}")):
        Sweep([study(arms=arms, settings=settings, space=space)]).preview(tmp_path)
    space = Space(space.grid, [{"learning_rate": r} for r in (0.1, 0.2)])
    jobs = Sweep([study(arms=arms, space=space, fork_at=0.0)]).preview(tmp_path)
    assert folders(jobs, tmp_path) == {
        f"lin/seed-0/learning_rate={rate}/{arm}"
        for rate in (0.1, 0.2)
        for arm in ("none", "rebalance_lam=2_task-2f5976", "rebalance_lam=5_task-52d543")
    }


def test_a_sweep_over_environments_needs_none_in_its_settings_and_can_get_more(tmp_path: Path) -> None:
    settings = {"steps": 80, "rollout_steps": 10, "minibatch_size": 10, "hidden": [8], "compile": "off"}

    def over(*envs: str) -> Sweep:
        space = Space({"env": list(envs)})
        return Sweep([Study("envs", "ppo", settings=settings, arms=("none",), seeds=(0,), fork_at=0.0, space=space)])

    jobs = over("CartPole-v1", "Acrobot-v1").begin(tmp_path / "s")
    assert [getattr(job.spec.settings, "env", "") for job in jobs] == ["CartPole-v1", "Acrobot-v1"]
    assert len(over("CartPole-v1", "Acrobot-v1", "MountainCar-v0").begin(tmp_path / "s")) == 3


def test_a_benchmark_may_be_written_out_but_not_in_part() -> None:
    whole = {"stream": "permuted", "dataset": "mnist", "tasks": 3, "batch_size": 8}
    (comparison, _), *_ = Study("s", "vision", settings=whole).comparisons(lambda *point: None).values()
    assert getattr(comparison.settings, "tasks", 0) == 3
    with pytest.raises(UsageError, match="vision needs a benchmark as its preset"):
        Study("s", "vision", settings={"tasks": 3}).comparisons(lambda *point: None)


def test_a_point_that_is_drawn_is_no_combination(tmp_path: Path) -> None:
    """Strength i goes with step size i: five draws are five runs, not twenty-five."""
    random = Random(5, {"lam": Range(1.0, 9.0), "learning_rate": Range(0.01, 0.1, log=True)})
    jobs = Sweep([study(arms=("rebalance(lam={lam})@task",), space=Space(random=random))]).preview(tmp_path)
    drawn = random.draw()
    assert [(job.spec.labels.arm, dict(job.spec.labels.variant)) for job in jobs] == [
        (f"rebalance(lam={point['lam']})@task", {"learning_rate": point["learning_rate"]}) for point in drawn
    ]


def test_arms_with_other_strengths_share_their_trunk(tmp_path: Path) -> None:
    space = Space({"lam": [0.2, 0.8], "learning_rate": [0.1, 0.2]})
    jobs = Sweep([study(arms=("none", "snp(lam={lam})"), fork_at_task=1, space=space)]).preview(tmp_path)
    trunks = {job.trunk for job in jobs if job.spec.labels.arm and job.trunk}
    assert len([job for job in jobs if job.spec.labels.arm is None]) == len(trunks) == 2
    assert len(jobs) == 2 + 2 * 3


def test_a_preset_can_vary_as_well(tmp_path: Path) -> None:
    small = {"num_envs": 1, "rollout_steps": 20, "minibatch_size": 10, "compile": "off"}
    space = Space({"preset": ["gym-control-small", "nine-rooms-small"]})
    made = Study("worlds", "ppo", settings=small, arms=("none",), fork_at=0.0, space=space, seeds=(0, 1))
    jobs = Sweep([made]).preview(tmp_path)
    assert folders(jobs, tmp_path) == {
        f"worlds/{preset}/seeds-0-1/{arm}" for preset in space.grid["preset"] for arm in ("none", "fresh")
    }
    assert {job.spec.settings.env for job in jobs} == {"CartPole-v1", "NineRooms-v0"}  # type: ignore[attr-defined]


def test_a_point_takes_the_place_of_what_a_preset_varies() -> None:
    space = Space(listed=[{"replay_ratio": 4.0}, {"replay_ratio": 8.0}])
    study = Study("ratios", "sac", "replay-ratio-small", arms=("none",), reference="none", space=space)
    ((comparison, _),) = study.comparisons(lambda *_: 0.0).values()
    assert comparison.points == (("none", {"replay_ratio": 4.0}), ("none", {"replay_ratio": 8.0}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"space": Space({"learning_rat": [1]})}, "linear has no setting 'learning_rat': did you mean 'lea"),
        ({"space": Space({"seed": [1]})}, "seed cannot differ between the runs"),
        ({"arms": ("snp(lam={lam})@task",)}, "snp(lam={lam})@task: no point has a value for {lam}"),
        (
            {"arms": ("l2_init(strength={strenght})",), "space": Space({"strength": [0.1]})},
            "l2_init(strength={strenght}): no point has a value for {strenght}",
        ),
        ({"arms": ("snpp@task",)}, "did you mean 'snp'?"),
        ({"kind": "linaer"}, "unknown kind of run 'linaer': did you mean 'linear'?"),
        ({"preset": "gym-control"}, "preset 'gym-control' is for ppo"),
        ({"reference": "fresh"}, "--reference fresh is only for agents"),
        ({"space": Space({"learning_rate": [0.1, -0.1]})}, "--learning-rate must be a positive number, got -0.1"),
    ],
)
def test_a_study_that_cannot_be_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as found:
        Sweep([study(**changes)]).begin(tmp_path / "out")
    assert str(found.value).startswith("[lin] ")
    assert not (tmp_path / "out").exists()


# -- widening -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_the_file_has_more_is_added_and_what_is_finished_stays(tmp_path: Path, worked: Worked) -> None:
    path = tmp_path / "out"
    first = worked(Sweep([study(space=Space({"learning_rate": [0.1]}))]).begin(path))
    assert first == ["lin · seed 0 · learning_rate 0.1 · none"]
    wider = study(seeds=(0, 1), arms=("none", "snp@task"), space=Space({"learning_rate": [0.2, 0.1]}))
    more = worked(Sweep([wider, study("other")]).begin(path))
    assert len(more) == 2 * 2 * 2 - 1 + 1
    assert "other · seed 0 · none" in more
    assert worked(open_sweep(path)) == []


def test_settings_that_json_writes_in_another_way_are_the_same_study(tmp_path: Path) -> None:
    settings = {"env": "CartPole-v1", "steps": 4096, "hidden": (8, 8), "compile": "off"}
    asked = Sweep([Study("p", "ppo", settings=settings, arms=("none",), fork_at=0.0)])
    assert folders(asked.begin(tmp_path / "out"), tmp_path) == folders(asked.begin(tmp_path / "out"), tmp_path)


def test_a_sweep_that_an_older_version_began_is_extended_with_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"tasks": "semantic,reversal", "updates_per_task": 20}
    with monkeypatch.context() as patch:
        patch.setattr(RunSettings, "fit", lambda self, steps: setattr(self, "checkpoint_every", 2_000))
        Sweep([study(settings=settings, fork_at=0.0)]).begin(tmp_path)
    jobs = Sweep([study(settings=settings, fork_at=0.0, arms=("none", "snp@task"))]).begin(tmp_path)
    assert [job.spec.settings.checkpoint_every for job in jobs] == [2_000, 2_000]


def test_what_the_file_has_no_more_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "out"
    Sweep([study(space=Space({"learning_rate": [0.1, 0.2]})), study("other")]).begin(path)
    jobs = Sweep([study(arms=("snp@task",), space=Space({"learning_rate": [0.2]}))]).begin(path)
    assert folders(jobs, path) == {
        "lin/seed-0/learning_rate=0.1/none", "lin/seed-0/learning_rate=0.2/none",
        "lin/seed-0/learning_rate=0.2/snp_task-e13159", "other/seed-0/none",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"settings": {**LINEAR, "updates_per_task": 30}}, "[lin] settings is {'tasks': 'semantic,reversal', "),
        (
            {"leads": "final forgetting"},
            "[lin] leads is 'final forgetting', but runs were started with 'final excess loss'",
        ),
        ({"kind": "ppo", "settings": {"env": "CartPole-v1"}}, "[lin] kind is 'ppo', "),
    ],
)
def test_another_experiment_is_refused_in_a_folder_that_has_begun(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    path = tmp_path / "out"
    Sweep([study()]).begin(path)
    before = {file: file.read_bytes() for file in path.rglob("*.json")}
    with pytest.raises(UsageError, match=re.escape(says)):
        Sweep([study(**changes)]).begin(path)
    assert {file: file.read_bytes() for file in path.rglob("*.json")} == before


@pytest.mark.parametrize("updates", [20, 30])
def test_who_finds_that_another_has_just_begun_the_sweep_joins_it_if_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, updates: int
) -> None:
    begin = signed_json.start_folder

    def another_is_faster(*args: Any) -> None:
        monkeypatch.undo()
        Sweep([study()]).begin(tmp_path)
        begin(*args)

    monkeypatch.setattr(signed_json, "start_folder", another_is_faster)
    with nullcontext() if updates == 20 else pytest.raises(UsageError, match=re.escape("[lin] settings is {'tasks'")):
        jobs = Sweep([study(settings={**LINEAR, "updates_per_task": updates})]).begin(tmp_path)
        assert folders(jobs, tmp_path) == {"lin/seed-0/none"}


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(UsageError, match="already holds another run or other files"):
        Sweep([study()]).begin(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.slow
def test_seeds_added_to_a_finished_comparison_are_as_in_one_that_had_them_and_a_kill_changes_nothing(
    tmp_path: Path, worked: Worked
) -> None:
    path, whole = tmp_path / "more", tmp_path / "whole"
    asked = study(arms=("none", "snp@task"), seeds=(0, 1)).comparison("")
    assert len(worked(comparisons.create(path, asked, 1).queue(path))) == 2 * 3
    worked(comparisons.create(whole, replace(asked, seeds=(0, 1, 2)), 1).queue(whole))
    before = {file: file.read_bytes() for file in path.glob("seed-*/**/*") if file.is_file()}

    def interrupt(step: int, end: int) -> None:
        if step >= 10:
            raise KeyboardInterrupt

    queue = add_seeds(path, (1, 2))
    assert [run.name for run in queue.left] == ["seed-2/trunk", "seed-2/none", queue[-1].name]
    with pytest.raises(KeyboardInterrupt):
        queue.work_off(lambda run, held: run.train(held, interrupt, print))
    assert len(worked(open_queue(path))) == 3
    assert {file: file.read_bytes() for file in before} == before
    for file in whole.glob("seed-2/**/*.safetensors"):
        assert (path / file.relative_to(whole)).read_bytes() == file.read_bytes()
    assert load(path).seeds == 3
    record = (path / "comparison.json").read_bytes()
    assert worked(add_seeds(path, (2,))) == []
    assert (path / "comparison.json").read_bytes() == record


def test_added_seeds_are_a_stack_of_their_own_and_those_of_a_study_belong_into_its_file(tmp_path: Path) -> None:
    settings = {"env": "CartPole-v1", "steps": 4096, "hidden": (8, 8), "compile": "off"}
    asked = study("p", kind="ppo", settings=settings, fork_at=0.0, seeds=(0, 1))
    comparisons.create(tmp_path / "c", asked.comparison(""), 1)
    assert folders(add_seeds(tmp_path / "c", (1, 3, 2)), tmp_path / "c") == {"seeds-0-1/none", "seeds-3-2/none"}
    assert comparisons.read_comparison(tmp_path / "c").stacks == ((0, 1), (3, 2))
    Sweep([study()]).begin(tmp_path / "sweep")
    with pytest.raises(UsageError, match="is a study of the sweep in"):
        add_seeds(tmp_path / "sweep/lin", (1,))


# -- files ----------------------------------------------------------------------------------------------------------


def test_a_file_says_the_same_as_python(write: Write) -> None:
    file = write("""
        [defaults]
        kind = "ppo"
        settings = { env = "CartPole-v1" }
        seeds = "0-2 7"

        [rates]
        arms = ["none", "l2_init(strength={strength})"]
        fork_at = 0.5
        grid = { hidden = [[8], [16, 16]], strength = [1e-4] }
        points = [{ gamma = 0.9 }, { gamma = 0.99 }]

        [rates.random]
        count = 3
        seed = 4
        learning_rate = { low = 1e-4, high = 1e-2, log = true }
        epochs = { choice = [1, 2] }

        [other]
        kind = "dqn"
        reference = "fresh"
        seeds = [5]
    """)
    random = Random(3, {"learning_rate": Range(1e-4, 1e-2, True), "epochs": Choice((1, 2))}, 4)
    space = Space({"hidden": [[8], [16, 16]], "strength": [1e-4]}, [{"gamma": 0.9}, {"gamma": 0.99}], random)
    cartpole, arms = {"env": "CartPole-v1"}, ("none", "l2_init(strength={strength})")
    assert read_sweep(file).studies == [
        Study("rates", "ppo", None, cartpole, arms, (0, 1, 2, 7), fork_at=0.5, space=space),
        Study("other", "dqn", None, cartpole, (), (5,), "fresh"),
    ]


def test_some_studies_of_a_file_are_added_to_a_folder_one_after_the_other(write: Write, tmp_path: Path) -> None:
    own = 'kind = "linear"\nsettings = { tasks = "random", updates_per_task = 5 }\narms = ["none"]\nseeds = [0]\n'
    file = write(f"[a]\n{own}[b]\n{own}[c]\n{own}")
    for name in ("c", "a"):
        runs = read_sweep(file, studies=[name]).begin(tmp_path / "out")
    assert [run.spec.labels.study for run in runs] == ["c", "a"]
    with pytest.raises(UsageError, match=re.escape("unknown study 'd' (known: a, b, c)")):
        read_sweep(file, studies=["a", "d"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[a\nkind = 1", "is not a TOML file: Expected ']' at the end of a table declaration (at line 1, column 3)"),
        ("", "there is no study: begin one with a line such as [rates]"),
        ("kind = 'ppo'", "kind is outside a table: begin a study with a line such as [sweep]"),
        ("[a]", "[a] has no entry kind"),
        ("[a]\nkind = 'ppo'\ngird = {}", "[a]: unknown entry 'gird': did you mean 'grid'?"),
        ("[a]\nkind = 'ppo'\nseeds = 'one'", "[a].seeds: 'one' is neither a seed"),
        ("[a]\nkind = 'ppo'\ngrid = 3", "[a].grid should be an object, but is 3"),
        ("[a]\nkind = 'ppo'\nrandom = { x = { choice = [1] } }", "[a].random.count is missing"),
        ("[a]\nkind = 'ppo'\nrandom = { count = 1 }", "[a].random has nothing to draw"),
        ("[a]\nkind = 'ppo'\nrandom = { count = 1, x = { low = 1 } }", "[a].random.x must be"),
        (
            "[a]\nkind = 'ppo'\nrandom = { count = 1, x = { low = 1, high = 'b' } }",
            "got `str` - at `$.high`",
        ),
    ],
)
def test_a_wrong_file_is_told_with_the_place(write: Write, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as found:
        read_sweep(write(text))
    assert "\n" not in str(found.value)
    assert "sweep.toml" in str(found.value)


def test_what_is_small_changes_settings_grid_and_search_one_by_one(write: Write) -> None:
    file = write(
        """
        [lin]
        kind = "linear"
        settings = { tasks = "random,random", updates_per_task = 50 }
        arms = ["none", "snp(lam={lam})"]
        search = { points = 3, lam = { low = 0.1, high = 0.9 } }
        grid = { n_in = [4], n_hidden = [4, 8] }
        small = { settings = { updates_per_task = 5 }, grid = { n_hidden = [4] }, search = { points = 2 } }
        [left-out]
        kind = "linear"
        """
    )
    (small,) = read_sweep(file, "small", settings={"learning_rate": "1e-2"}).studies
    assert small.settings == {"tasks": "random,random", "updates_per_task": 5, "learning_rate": 1e-2}
    assert small.space == Space({"n_in": [4], "n_hidden": [4]})
    assert small.search == Search({"lam": Range(0.1, 0.9)}, points=2)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no sweep file"):
        read_sweep(tmp_path / "none.toml")


def test_numbers_of_others_do_not_stand_beside_a_smaller_study(write: Write) -> None:
    published = 'published = { source = "a", measure = "b", rows = { none = 1 } }'
    file = write(f'[lin]\nkind = "linear"\n{published}\nsmall = {{ seeds = "0" }}')
    whole, small = (read_sweep(file, scale).studies[0].published for scale in ("paper", "small"))
    assert whole == Published("a", "b", {"none": 1})
    assert small is None


@pytest.mark.slow
def test_a_sweep_is_read_while_checkpoints_of_its_runs_come_and_go(tmp_path: Path, worked: Worked) -> None:
    jobs = Sweep([study(settings={**LINEAR, "updates_per_task": 1})]).begin(tmp_path / "sweep")
    worked(jobs)
    places = [jobs[0].folder / "checkpoints" / f"tmp-{i}" for i in range(50)]
    ended = threading.Event()

    def come_and_go() -> None:
        while not ended.is_set():
            for change in (Path.mkdir, Path.rmdir):
                list(map(change, places))

    with ThreadPoolExecutor() as pool:
        pool.submit(come_and_go)
        for _ in range(30):
            assert [job.folder for job in open_sweep(tmp_path / "sweep")] == [jobs[0].folder]
            assert failures(jobs[0].path) == []
            assert outcomes(jobs[0].path) == ["finished"]
        ended.set()
