"""Rates of training that were measured on a GPU (docs/reference/benchmarks.md), for estimates where there is none."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from supple.engine.settings import group_of
from supple.engine.spec import RunSpec

GPU = "one NVIDIA H200"


@dataclass(frozen=True)
class Rate:
    """A rate that was measured on that GPU, and the runs to which it applies: of one seed, with the kind's own network.

    Attributes:
        same: The settings, besides those of the network, that have their defaults in these runs.
        env: The beginning of the names of their environments; "" for kinds without.
        per_second: What was measured, in units per second.
        units: Returns the units in a step of a run with these settings.
        about: What was measured, in words.
    """

    same: tuple[str, ...]
    env: str
    per_second: float
    units: Callable[[Any], float]
    about: str


RATES = {  # by kind of run
    "dqn": Rate(
        ("num_envs", "replay_ratio", "batch_size", "n_step", "double_q"), "ALE/",
        1_029, lambda s: s.replay_ratio,
        "1,029 gradient steps/s, recorded as a CUDA graph, with the steps of 4 copies of Asterix, without evaluations",
    ),
    "sac": Rate(
        ("batch_size", "n_step"), "h1-",
        453, lambda s: s.replay_ratio / s.action_repeat,
        "453 updates/s, recorded as a CUDA graph, float32; the steps of environments come on top",
    ),
    "pretrain": Rate(
        ("micro_batch",), "",
        372_717, lambda s: s.batch_size * s.block_size,
        "372,717 tokens/s, bfloat16, 12 × 1,024 tokens at a time, without evaluations",
    ),
}  # fmt: skip


def gpu_seconds(spec: RunSpec, steps: int) -> tuple[float, str] | None:
    """Return the seconds that `steps` steps of a run would take on the GPU, and what was measured there.

    None if nothing was measured on such a run.
    """
    s: Any = spec.settings
    rate = RATES.get(spec.kind)
    if rate is None or len(spec.seeds) > 1 or not (getattr(s, "env", "") or "").startswith(rate.env):
        return None
    alike = [field for field in fields(s) if field.name in rate.same or group_of(type(s), field.name) == "network"]
    if any(getattr(s, field.name) != field.default for field in alike):
        return None
    return steps * rate.units(s) / rate.per_second, rate.about
