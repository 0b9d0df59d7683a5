"""The report on artificial runs in several variants of the settings."""

import numpy as np
import pytest

from supple.agents.report import score
from supple.reports import build_report, load
from tests import records
from tests.agents.report.test_report import write_run

pytestmark = pytest.mark.slow


def vary(folder, variants, **stream):
    records.write_plan(folder, "ppo", ["none", "fire@task"], [0, 1], variants=variants)
    for place, variant in enumerate(variants):
        for arm in ("none", "fire@task"):
            for seed in (0, 1):
                run = folder / f"seed-{seed}" / str(place) / arm
                write_run(run, arm=arm, seed=seed, variant=variant, **stream, **variant)
    return folder


def test_variants_may_have_other_numbers_of_cycles(tmp_path):
    """The final returns are those of each run's own last cycle."""
    found = score(load(vary(tmp_path, [{"cycles": 1}, {"cycles": 2}], envs=("Hopper-v5",), per_task=6_000)))
    for label, arm in found.arms.items():
        assert np.isfinite(arm.last).all(), label
        assert np.isnan(arm.finals[:, 0]).all() == ("cycles=1" in label)


def test_variants_with_other_environments_have_a_scale_of_their_own(tmp_path):
    """Hopper returns 1,100 and Ant 400, but in each an arm's score is what it would be without the other."""
    both, one = tmp_path / "both", tmp_path / "one"
    names = [{"envs": ("Hopper-v5",)}, {"envs": ("Ant-v5",)}]
    together, alone = (score(load(vary(*of, cycles=1, per_task=6_000))) for of in ((both, names), (one, names[1:])))
    ant = [arm.plasticity.iqm for arm in alone.arms.values()]
    assert [arm.plasticity.iqm for arm in together.arms.values()][2:] == pytest.approx(ant)
    assert max(ant) - min(ant) > 0.2


@pytest.mark.usefixtures("without_figures")
def test_learning_curves_of_many_arms_are_a_figure_for_each_variant(tmp_path):
    folder, variants = tmp_path / "c", [{"activation": "relu"}, {"activation": "tanh"}]
    arms = ["none", *(f"l2_init(strength={value})" for value in (1, 2, 3, 4))]
    records.write_plan(folder, "ppo", arms, [0], variants=variants)
    for variant in variants:
        for i, arm in enumerate(arms):
            run = folder / "seed-0" / f"activation={variant['activation']}" / str(i)
            write_run(run, arm=arm, envs=("Hopper-v5",), cycles=1, per_task=12_000, variant=variant)
    paths = build_report(folder)
    names = {figure.stem for figure in paths.figures}
    assert {"learning_curves_activation_relu", "learning_curves_activation_tanh", "sensitivity_strength"} <= names
    assert "learning_curves" not in names
    assert all(figure.with_suffix(".svg").is_file() for figure in paths.figures)
    assert len(list((paths.folder / "runs").iterdir())) == 10
