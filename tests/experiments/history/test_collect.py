"""Reading run and comparison directories, whole, torn and damaged."""

import pytest

from supple.agents.report import score
from supple.engine.kinds import all_kinds
from supple.engine.storage.signed_json import read_json, write_json
from supple.registry.errors import RunError
from supple.reports import build_report, load, read_jsonl
from tests import records

TASKS = [
    {"index": 0, "cycle": 0, "env": "Hopper-v5", "name": "Hopper-v5", "start": 0, "end": 100},
    {"index": 1, "cycle": 0, "env": "Ant-v5", "name": "Ant-v5", "start": 100, "end": 200},
]


def episode(step, value, task=0):
    return {"step": step, "env": TASKS[task]["env"], "task": task, "cycle": 0, "return": value, "length": 10}


def write_run(folder, episodes, arm=None, seed=0, events=(), metrics=(), variant=None, hooks=(), start=100):
    labels = {"arm": arm, "variant": variant or {}}
    records.write_run(folder, "ppo", TASKS, {"seed": seed}, start if arm else 0, labels=labels, hooks=hooks)
    records.write_logs(folder, episodes=episodes, metrics=metrics, events=events)
    return folder


def write_comparison(folder, arms, seeds, fork=100, variants=({},)):
    records.write_plan(folder, "ppo", arms, seeds, fork, variants)
    return folder


@pytest.mark.parametrize("torn", ["", '{"step": 3, "re', '{"step": 3}garbage\n', "\x00\x00\x00", '{"step"'])
@pytest.mark.parametrize("whole", ["", '{"step": 1}\n', '{"step": 1}\n{"step": 2}\n'])
def test_torn_last_line_is_dropped(tmp_path, whole, torn):
    file = tmp_path / "log.jsonl"
    file.write_text(whole + torn)
    assert [row["step"] for row in read_jsonl(file)] == list(range(1, 1 + whole.count("step")))


@pytest.mark.parametrize("broken", ['{"step": 2, "re', '{"step": 2}{"step": 3}'])
def test_broken_line_in_the_middle_names_file_and_line(tmp_path, broken):
    file = tmp_path / "log.jsonl"
    file.write_text(f'{{"step": 1}}\n{broken}\n{{"step": 4}}\n')
    with pytest.raises(ValueError, match=r"log\.jsonl, line 2: ") as caught:
        read_jsonl(file)
    assert "\n" not in str(caught.value)


def test_arm_continues_the_trunk_of_its_own_seed(tmp_path):
    folder = write_comparison(tmp_path / "c", ["none", "fire"], [0, 1])
    for seed in (0, 1):
        beyond = episode(110, 99, task=1)  # the fork, which does not enter an arm
        write_run(folder / f"seed-{seed}" / "trunk", [episode(50, seed), beyond], seed=seed)
        write_run(folder / f"seed-{seed}" / "x", [episode(150, 10 + seed, task=1)], arm="fire", seed=seed)
        write_run(folder / f"seed-{seed}" / "y", [episode(160, 20 + seed, task=1)], arm="none", seed=seed)
    data = load(folder)
    assert (list(data.arms), data.fork_step) == (["none", "fire"], 100)
    assert [run.seed for run in data.arms["fire"]] == [0, 1]
    returns = {arm: [run.episodes.returns.tolist() for run in runs] for arm, runs in data.arms.items()}
    assert returns == {"none": [[0, 20], [1, 21]], "fire": [[0, 10], [1, 11]]}


def test_the_finished_model_of_a_run_is_no_run(tmp_path):
    model = write_run(write_comparison(tmp_path / "c", ["none"], [0]) / "seed-0" / "none", [], "none") / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")  # as transformers writes it
    assert len(load(tmp_path / "c").runs) == 1


def test_arms_are_named_after_their_variant_and_continue_its_own_trunk(tmp_path):
    rates = [{"learning_rate": 1e-3}, {"learning_rate": 1e-4}]
    folder = write_comparison(tmp_path / "c", ["none", "fire"], [0], variants=rates)
    for i, variant in enumerate(rates):
        place = folder / "seed-0" / f"learning_rate={variant['learning_rate']}"
        write_run(place / "trunk", [episode(50, float(i))], variant=variant)
        write_run(place / "none", [episode(150, 10.0 + i, task=1)], "none", variant=variant)
    data = load(folder)
    assert list(data.arms) == ["learning_rate=0.001 · none", "learning_rate=0.0001 · none"]
    assert [run.episodes.returns.tolist() for [run] in data.arms.values()] == [[0, 10], [1, 11]]
    assert data.notes == [f"learning_rate={rate} · fire: no run yet for seed 0" for rate in (0.001, 0.0001)]
    trunks = load(folder, since_fork=True).trunks
    assert sorted(trunk.spec.labels.variant["learning_rate"] for trunk in trunks) == [1e-4, 1e-3]


def test_variants_that_begin_at_other_steps_of_one_trunk_continue_it_from_there(tmp_path):
    starts = [{"start": "40"}, {"start": "80"}]
    folder = write_comparison(tmp_path / "c", ["none"], [0], variants=starts)
    write_run(folder / "seed-0" / "trunk", [episode(30, 0.0), episode(60, 1.0), episode(90, 2.0)])
    for variant in starts:
        at, place = int(variant["start"]), folder / "seed-0" / f"start={variant['start']}" / "none"
        write_run(place, [episode(at + 50, 9.0)], "none", variant=variant, start=at)
    returns = [run.episodes.returns.tolist() for [run] in load(folder).arms.values()]
    assert returns == [[0, 9], [0, 1, 9]]


def test_missing_arms_and_seeds_are_noted(tmp_path):
    folder = write_comparison(tmp_path / "c", ["none", "fire", "snp"], [0, 1])
    write_run(folder / "seed-0" / "trunk", [episode(50, 0.0)])
    write_run(folder / "seed-0" / "a", [episode(190, 1.0, task=1)], arm="none")
    write_run(folder / "seed-0" / "b", [episode(110, 1.0, task=1)], arm="fire")
    data = load(folder)
    assert list(data.arms) == ["none", "fire"]
    assert "none: no run yet for seed 1" in data.notes
    assert "snp: no run yet for seed 0, 1" in data.notes
    assert next(note for note in score(data).notes if "unfinished" in note).startswith("fire, seed 0: ")


def test_single_run_is_named_by_its_hooks(tmp_path):
    run = write_run(tmp_path / "run", [episode(50, 1.0)])
    assert list(load(run).arms) == ["none"]
    run = write_run(tmp_path / "hooks", [episode(50, 1.0)], hooks=("fire@task", "l2_init"))
    assert list(load(run).arms) == ["fire@task, l2_init"]


def test_series_skips_what_is_no_finite_number(tmp_path):
    values = [1.0, None, 4.0]
    rows = [{"step": i, "agent/srank": value} for i, value in enumerate(values)] + [{"step": 9}]
    steps, found = load(write_run(tmp_path / "run", [], metrics=rows)).first.series("agent/srank")
    assert steps.tolist() == [0, 2]
    assert found.tolist() == [1.0, 4.0]


def test_other_directory_is_refused_with_what_a_run_contains(tmp_path):
    with pytest.raises(ValueError, match=r"config\.json, episodes\.jsonl") as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)


def test_unknown_kind_of_runs_is_refused_with_those_that_there_are(tmp_path):
    run = write_run(tmp_path / "run", [episode(50, 1.0)])
    write_json(run / "config.json", {**read_json(run / "config.json", ""), "kind": "pppo"})
    with pytest.raises(RunError, match="unknown kind of run 'pppo'.*" + ".*".join(sorted(all_kinds()))):
        build_report(run)
    assert not (run / "report").exists()


def test_comparison_without_a_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no run has started"):
        load(write_comparison(tmp_path / "c", ["none"], [0]))


@pytest.mark.slow
def test_until_an_arm_starts_the_report_is_of_the_trunks_with_the_reason(tmp_path):
    folder = write_comparison(tmp_path / "c", ["none", "fire"], [0, 1])
    for seed in (0, 1):
        trunk = write_run(folder / f"seed-{seed}" / "trunk", [episode(50, 1.0)], seed=seed)
    write_json(trunk / "outcome.json", {"outcome": "failed", "reason": "the spring broke"})
    assert {arm: len(runs) for arm, runs in load(folder).arms.items()} == {"trunk": 2}
    page = build_report(folder).html.read_text()
    assert "seed-1/trunk failed: the spring broke" in page
    assert "fire: no run yet for seed 0, 1" in page
    assert "–, –" not in page
