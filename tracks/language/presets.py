"""Settings of whole experiments, by name."""

from dataclasses import dataclass, field
from typing import Any

from .continual.presets import METHODS, SMALL, TRACE, X_TAIL


@dataclass(frozen=True)
class Preset:
    """An experiment: the kind of run, its settings and, for `supple compare language`, variants, arms and seeds.

    vary: name of a setting → the values that it takes, each with every arm.
    """

    about: str
    kind: str
    settings: dict[str, Any]
    vary: dict[str, tuple[str, ...]] = field(default_factory=dict)
    arms: tuple[str, ...] = ("none",)
    seeds: tuple[int, ...] = (0, 1, 2)


# FIRE, Table 10: λ of shrink & perturb was tuned over .2, .5, .8; the released script has .5, .8, .5 for the starts
WARM_START_ARMS = ("none", "fire(steps=5)", "snp(lam=0.5)", "reset")

PRESETS = {
    "warm-start-gpt": Preset(
        "FIRE's warm-started GPT (4.2, E.2): 124M parameters; name the corpora by --first and --second",
        "pretrain",
        {"learning_rate": 6e-4, "eval_every": 1_000, "checkpoint_every": 2_000},
        {"start": ("best", "30000", "60000")},
        WARM_START_ARMS,
    ),
    "warm-start-gpt-small": Preset(
        "the same on a CPU: a GPT of 0.9M parameters, a twentieth of the King James Bible, then all of it and Brown",
        "pretrain",
        {
            "first": ("kjv",),
            "second": ("brown", "kjv"),
            "first_share": 0.05,
            "tokenizer": "bpe:1024",
            "layers": 4,
            "width": 128,
            "heads": 4,
            "block_size": 64,
            "batch_size": 16,
            "micro_batch": 16,
            "learning_rate": 1e-3,
            "pretrain_steps": 2_400,
            "warmup": 100,
            "steps": 600,
            "eval_every": 50,
            "measure_every": 400,
            "checkpoint_every": 400,
        },
        {"start": ("best", "1200", "2400")},
        WARM_START_ARMS,
    ),
    "moram-x-tail": Preset(
        "MoRAM on X-TAIL (Table 1, A.1) beside its baselines: name the CLIP by --model, the data sets by --tasks",
        "continual",
        X_TAIL,
        {"method": METHODS},
    ),
    "moram-trace": Preset(
        "MoRAM on TRACE (Table 2, A.1) beside its baselines: name the language model by --model, TRACE by --tasks",
        "continual",
        TRACE,
        {"method": METHODS},
    ),
    "moram-small": Preset(
        "the same on a CPU, on six tasks of reasoning-gym: name a small model of yours by --model",
        "continual",
        SMALL,
        {"method": METHODS},
    ),
}
