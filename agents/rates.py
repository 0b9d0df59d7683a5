"""Learning-rate schedules of agents.

    η(t) = η·(m + (1 − m)·s(t)),   linear: s = 1 − t,   cosine: s = ½·(1 + cos πt)

η is `learning_rate`, m is `min_rate`, and t in [0, 1) is the part of the task, or of the run, before a decision.
All learners follow the schedule, as does SAC's temperature.
"""

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from supple.interventions import EntropyTemperature, Learner

from .settings import AgentSettings
from .tasks import EnvTask


def rate_at(settings: AgentSettings, task: EnvTask, end: int, step: int) -> float:
    """Return the learning rate of a decision on a linear or cosine schedule, as a share of the initial one.

    Args:
        settings: The settings.
        task: The current task.
        end: The last step of the run.
        step: The step of the run before the decision.
    """
    start, stop = (task.start, task.end) if settings.schedule_over == "task" else (0, end)
    left = (stop - step) / (stop - start)
    if settings.schedule == "cosine":
        left = 0.5 * (1.0 - math.cos(math.pi * left))
    return settings.min_rate + (1.0 - settings.min_rate) * left


def scale_rates(learners: Iterable[Learner], share: float) -> None:
    """Set all learning rates of these learners, and of their temperature, to a share of the initial ones."""
    for learner in learners:
        temperature = learner.offers(EntropyTemperature)
        for own in (learner, temperature.learner) if temperature else (learner,):
            for group in own.optimizer.param_groups if own.optimizer else ():
                rate = share * group.setdefault("initial_lr", float(group["lr"]))
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate


def initial_rate(settings: AgentSettings, rate: float, captured: bool) -> float | Tensor:
    """Return a learning rate as optimizers take it: a tensor if a CUDA graph has to read another one at each replay."""
    if settings.schedule == "constant" or not captured:
        return rate
    return torch.tensor(rate, device="cuda")
