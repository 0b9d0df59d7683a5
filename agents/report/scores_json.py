"""The scores of agents as scores.json has them."""

from typing import Any

import numpy as np

from supple.agents.presets import FINAL
from supple.experiments.history.data import ComparisonData
from supple.reports.tables.old_tasks import old_tasks_json
from supple.reports.tables.statistics import mean

from .areas import shares_json
from .scores import AgentScores, ArmScores, interval


def to_json(data: ComparisonData, scores: AgentScores) -> dict[str, Any]:
    """Return the contents of scores.json for agents. NaN becomes null.

    Keys:
    `supple`, `algorithm`, `leads` (the measure that leads the report), `total_steps`, `fork_step` (null for a single
    run), `environments` (a label for each position in the sequence), `cycles`, `notes` (missing data, in words),
    `human_normalized_from` ("evaluation" or "training", the returns that were human-normalised, see `scores.score`),
    and `arms`: label →
        `seeds`: the seeds, in the order of every list below;
        `plasticity_score`, `plasticity_score_interval`: IQM and 95 % interval [low, high] (null with one seed, and if
        all are equal);
        `human_normalized`, `human_normalized_interval`: the same for the human-normalised scores, and
        `human_normalized_per_seed`: (seeds, environments), null for what is missing;
        `final_return`: last cycle's mean training return in the final 15 % of each environment, mean over seeds;
        `final_return_interval`: 95 % Student-t interval [low, high] for each environment (null with one seed, and if
        all are equal);
        `final_return_per_seed`: (seeds, environments);
        `mean_return_per_seed`: (seeds, environments), mean area under the learning curves after the fork point, and
        `mean_return_after_first_task_per_seed`: the same over the tasks after the first;
        `share_of_fresh` (null without an arm `fresh`): `in_all`, and `by_task`, one for each of `tasks` (indices), each
        with `mean` (the ratio of means over seeds, see `share_over_seeds`), `interval` (null with one seed, and if it
        is not bounded) and `per_seed` (each seed's own share);
        `train_return`, `evaluation_return`, `test_return`: (seeds, cycles, environments), training in the final 15 %,
        the last evaluation there, and the same with held-out friction;
        `generalization_gap`: (cycles, environments), train − test, mean over seeds, failures 0;
        `gap_change_iqm`: ΔGAP, last − first cycle, IQM over seeds and environments;
        `explosions`, `interventions`: counts over all seeds;
        `at_interventions`: means of `sfe`, `sfe_normalized`, and of the metrics of `IN_TABLES`, such as
        `dfi_unscaled_before` and `dfi_unscaled_after`;
        `old_tasks`, if they were evaluated: see `old_tasks.old_tasks_json`.
    Differences between arms and the verdict are as in `reports.tables.differences.differences_json`.
    """
    return {
        "leads": data.first.leads,
        "total_steps": data.first.total_steps,
        "fork_step": data.fork_step,
        "environments": scores.environments,
        "cycles": scores.cycles,
        "human_normalized_from": scores.human_from,
        "arms": {label: _arm_json(arm) | old_tasks_json(scores.old_tasks, label) for label, arm in scores.arms.items()},
    }


def _arm_json(arm: ArmScores) -> dict[str, Any]:
    return {
        "seeds": arm.seeds,
        "plasticity_score": arm.plasticity and arm.plasticity.iqm,
        "plasticity_score_interval": interval(arm.plasticity),
        "human_normalized": arm.human and arm.human.iqm,
        "human_normalized_interval": interval(arm.human),
        "human_normalized_per_seed": np.full_like(arm.last, np.nan) if arm.human is None else arm.human.normalized,
        "final_return": mean(arm.last, axis=0),
        "final_return_interval": [arm.spread(FINAL, i).interval for i in range(arm.last.shape[1])],
        "final_return_per_seed": arm.last,
        "mean_return_per_seed": arm.mean_returns,
        "mean_return_after_first_task_per_seed": arm.later_returns,
        "share_of_fresh": arm.shares and shares_json(arm.shares),
        "train_return": arm.finals,
        "evaluation_return": arm.evaluations,
        "test_return": arm.tests,
        "generalization_gap": arm.mean_gaps,
        "gap_change_iqm": arm.gap_change,
        "explosions": arm.explosions,
        "interventions": arm.interventions,
        "at_interventions": arm.at_events,
    }
