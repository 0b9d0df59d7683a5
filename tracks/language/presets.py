"""Settings of whole experiments, by name."""

from ...engine.kinds import Preset, add
from .continual.presets import METHODS, SMALL, TRACE, X_TAIL

# FIRE, Table 10: λ of shrink & perturb was tuned over .2, .5, .8; the released script has .5, .8, .5 for the starts
WARM_START_ARMS = ("none", "fire(steps=5)", "snp(lam=0.5)", "reset")

SEEDS = (0, 1, 2)

add(
    Preset(
        "warm-start-gpt",
        "FIRE's warm-started GPT (4.2, E.2): 124M parameters; name the corpora by --first and --second",
        "pretrain",
        {"learning_rate": 6e-4, "eval_every": 1_000, "checkpoint_every": 2_000},
        {"start": ("best", "30000", "60000")},
        WARM_START_ARMS,
        seeds=SEEDS,
    ),
    Preset(
        "warm-start-gpt-small",
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
        seeds=SEEDS,
    ),
    Preset(
        "moram-x-tail",
        "MoRAM on X-TAIL (Table 1, A.1) beside its baselines: name the CLIP by --model, the data sets by --tasks",
        "continual",
        X_TAIL,
        {"method": METHODS},
        seeds=SEEDS,
    ),
    Preset(
        "moram-trace",
        "MoRAM on TRACE (Table 2, A.1) beside its baselines: name the language model by --model, TRACE by --tasks",
        "continual",
        TRACE,
        {"method": METHODS},
        seeds=SEEDS,
    ),
    Preset(
        "moram-small",
        "the same on a CPU, on six tasks of reasoning-gym: name a small model of yours by --model",
        "continual",
        SMALL,
        {"method": METHODS},
        seeds=SEEDS,
    ),
)
