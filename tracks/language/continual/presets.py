"""Presets of whole experiments of continual learning, with the methods that they compare."""

from typing import Any

METHODS = ("moram", "seqlora", "inclora", "moe-lora", "external-router", "o-lora", "ewc", "full")

# MoRAM paper, A.1: CLIP ViT-B/16 with 16 shots; "every pre-trained weight matrix in both encoders". Name --model and
# the folders of the ten data sets by --tasks.
X_TAIL: dict[str, Any] = {
    "method": "moram",
    "targets": (r"/(vision|text)_model\..*/",),
    "r": 16,
    "k": 16,
    "tau": 0.1,
    "delta": 0.2,
    "updates_per_task": 500,
    "learning_rate": 5e-4,
    "batch_size": 64,  # the paper does not say
    "protocol": "x-tail",
    "shots": 16,
}

# MoRAM paper, A.1: LLaMA and Gemma on TRACE's eight tasks, in TRACE's order, with the epochs of Qian et al. 2025. Name
# --model and the tasks' folders by --tasks.
TRACE: dict[str, Any] = {
    "method": "moram",
    "r": 16,
    "k": 16,
    "tau": 0.03,
    "delta": 0.2,
    "epochs": (2, 1, 3, 2, 1, 2, 2, 3),
    "learning_rate": 1e-4,
    "batch_size": 4,
    "max_length": 1024,
    "train_examples": 5_000,
    "test_examples": 2_000,
    "max_new_tokens": 256,
}

# The same on a CPU: six tasks of reasoning-gym for a small model of our own, which `supple train sft --model
# llama:128x4 --learn …` trains first; name its folder by --model.
SMALL: dict[str, Any] = {
    "method": "moram",
    "r": 8,
    "k": 8,
    "tau": 0.1,
    "delta": 0.2,
    "updates_per_task": 200,
    "learning_rate": 2e-3,
    "batch_size": 16,
    "max_length": 384,
    "train_examples": 1_000,
    "test_examples": 100,
    "max_new_tokens": 12,
    "measure_every": 200,
    "checkpoint_every": 200,
}
