"""Settings of whole experiments, by name."""

from supple.engine.kinds import Preset, add

# FIRE, Table 10: λ of shrink & perturb was tuned over .2, .5, .8; the released script has .5, .8, .5 for the starts
WARM_START_ARMS = ("none", "fire(steps=5)", "snp(lam=0.5)", "reset")

SEEDS = (0, 1, 2)
METHODS = ("moram", "seqlora", "inclora", "moe-lora", "external-router", "o-lora", "ewc", "full")

# MoRAM paper, A.1: CLIP ViT-B/16 with 16 shots; "every pre-trained weight matrix in both encoders". Name --model and
# the folders of the ten data sets by --tasks.
X_TAIL = {
    "method": "moram", "targets": (r"/(vision|text)_model\..*/",), "r": 16, "k": 16, "tau": 0.1, "delta": 0.2,
    "updates_per_task": 500, "learning_rate": 5e-4, "protocol": "x-tail", "shots": 16,
    "batch_size": 64,  # the paper does not say
}  # fmt: skip

# MoRAM paper, A.1: LLaMA and Gemma on TRACE's eight tasks, in TRACE's order, with the epochs of Qian et al. 2025. Name
# --model and the tasks' folders by --tasks.
TRACE = {
    "method": "moram", "r": 16, "k": 16, "tau": 0.03, "delta": 0.2, "epochs": (2, 1, 3, 2, 1, 2, 2, 3),
    "learning_rate": 1e-4, "batch_size": 4, "max_length": 1024, "train_examples": 5_000, "test_examples": 2_000,
    "max_new_tokens": 256,
}  # fmt: skip

# The same on a CPU: six tasks of reasoning-gym for a small model of our own, which `supple train sft --model
# llama:128x4 --learn …` trains first; name its folder by --model.
SMALL = {
    "method": "moram", "r": 8, "k": 8, "tau": 0.1, "delta": 0.2, "updates_per_task": 200, "learning_rate": 2e-3,
    "batch_size": 16, "max_length": 384, "train_examples": 1_000, "test_examples": 100, "max_new_tokens": 12,
    "measure_every": 200, "checkpoint_every": 200,
}  # fmt: skip
# FIRE's warm start on a CPU: a GPT of 0.9M parameters
SMALL_GPT = {
    "first": ("kjv",), "second": ("brown", "kjv"), "first_share": 0.05, "tokenizer": "bpe:1024", "layers": 4,
    "width": 128, "heads": 4, "block_size": 64, "batch_size": 16, "micro_batch": 16, "learning_rate": 1e-3,
    "pretrain_steps": 2_400, "warmup": 100, "steps": 600, "eval_every": 50, "measure_every": 400,
    "checkpoint_every": 400,
}  # fmt: skip

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
        SMALL_GPT,
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
        leads="Average",
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
