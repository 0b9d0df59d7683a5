"""What other libraries call the options of supple, for people who come from them.

The names are those of Stable-Baselines3 and its zoo, CleanRL, rejax, Dopamine, nanoGPT and transformers.
"""

ALL = {
    "output-dir": "out", "out-dir": "out", "log-dir": "out", "logdir": "out", "exp-name": "out",
    "random-seed": "seed",
    "report-to": "log-to", "track": "log-to",
    "save-freq": "checkpoint-every", "save-steps": "checkpoint-every", "save-total-limit": "keep-checkpoints",
    "eval-freq": "eval-every", "eval-interval": "eval-every", "eval-steps": "eval-every",
    "num-threads": "threads",
}  # fmt: skip
AGENTS = {
    "lr": "learning-rate",
    "env-id": "env", "env-name": "env", "environment": "env", "game-name": "env",
    "total-timesteps": "steps", "n-timesteps": "steps", "num-timesteps": "steps", "training-steps": "steps",
    "max-steps": "steps", "max-steps-per-episode": "max-episode-steps",
    "n-envs": "num-envs", "n-eval-episodes": "eval-episodes", "eval-num": "eval-episodes",
    "cuda": "device",
    "anneal-lr": "schedule", "lr-schedule": "schedule", "lr-scheduler-type": "schedule",
    "discount": "gamma", "beta1": "adam-betas", "eps": "adam-epsilon", "adam-eps": "adam-epsilon",
    "net-arch": "hidden", "hidden-layer-sizes": "hidden", "activation-fn": "activation",
    "policy-kwargs": "activation (and --hidden)", "wandb-project-name": "log-to (wandb)",
}  # fmt: skip
RATIO = "replay-ratio (gradient steps per environment step or decision)"
OFF_POLICY = {
    "buffer-size": "replay-size", "replay-capacity": "replay-size",
    "fill-buffer": "learning-starts", "min-replay-history": "learning-starts", "start-timesteps": "learning-starts",
    "train-freq": RATIO, "train-frequency": RATIO, "update-period": RATIO, "gradient-steps": RATIO,
    "utd-ratio": RATIO, "utd": RATIO,
}  # fmt: skip
TRACKS = {"lr": "learning-rate", "clip": "max-grad-norm", "grad-clip": "max-grad-norm"}
LANGUAGE = {"dtype": "precision", "bf16": "precision"}
WARMUP = {"warmup-steps": "warmup", "warmup-iters": "warmup"}
MODEL = {"model-name-or-path": "model", "model-name": "model"}
PEERS: dict[str, dict[str, str]] = {
    "ppo": AGENTS | {
        "n-steps": "rollout-steps", "num-steps": "rollout-steps", "batch-size": "minibatch-size",
        "num-minibatches": "minibatch-size (transitions of each)",
        "n-epochs": "epochs", "num-epochs": "epochs", "update-epochs": "epochs",
        "clip": "clip-range", "clip-coef": "clip-range", "clip-eps": "clip-range",
        "clip-range-vf": "clip-value", "clip-vloss": "clip-value",
        "ent-coef": "entropy-coefficient", "vf-coef": "value-coefficient",
        "norm-adv": "normalize-advantage",
        "ortho-init": "initialization", "normalize": "normalize-observations",
    },
    "dqn": AGENTS | OFF_POLICY | {
        "target-update-interval": "target-period", "target-network-frequency": "target-period",
        "target-update-freq": "target-period", "target-update-period": "target-period",
        "exploration-initial-eps": "exploration-start", "start-e": "exploration-start",
        "eps-start": "exploration-start", "exploration-final-eps": "exploration", "end-e": "exploration",
        "eps-end": "exploration",
        "epsilon-train": "exploration", "epsilon-eval": "eval-epsilon",
        "exploration-fraction": "exploration-steps (steps, not a share of the run)",
        "epsilon-decay-period": "exploration-steps",
        "ddqn": "double-q", "widths": "hidden",
    },
    "sac": AGENTS | OFF_POLICY | {
        "policy-lr": "learning-rate", "q-lr": "learning-rate",
        "polyak": "tau (1 − polyak)", "ent-coef": "temperature", "alpha": "temperature",
        "num-critics": "critics", "n-critics": "critics", "frame-skip": "action-repeat",
    },
    "vision": TRACKS | {
        "arch": "network", "model": "network", "num-tasks": "tasks", "n-epochs": "epochs", "num-epochs": "epochs",
        "dataset-name": "dataset", "data-dir": "data", "hidden": "width",
    },
    "linear": TRACKS | {"hidden": "n-hidden", "n-steps": "updates-per-task", "num-tasks": "tasks"},
    "pretrain": TRACKS | LANGUAGE | WARMUP | {
        "n-layer": "layers", "n-head": "heads", "n-embd": "width", "max-iters": "pretrain-steps", "dataset": "first",
        "min-lr": "min-rate (a share of --learning-rate)",
        "gradient-accumulation-steps": "micro-batch (sequences of a forward pass)", "eval-iters": "val-sequences",
    },
    "sft": TRACKS | LANGUAGE | WARMUP | MODEL | {
        "num-train-epochs": "epochs", "per-device-train-batch-size": "micro-batch", "max-seq-length": "max-length",
    },
    "clip": TRACKS | LANGUAGE | WARMUP | MODEL | {"max-steps": "updates", "dataset": "domains"},
    "continual": TRACKS | LANGUAGE | MODEL | {
        "num-train-epochs": "epochs", "lora-r": "r", "rank": "r", "target-modules": "targets",
        "max-seq-length": "max-length",
    },
}  # fmt: skip


def name_here(kind: str, option: str) -> str:
    """Return what an option of other libraries is called here, in a kind of run, or "" if nothing is known of it.

    Args:
        kind: The kind of run.
        option: The option as it was typed: `--lr`, `--total_timesteps`, `--n-steps=128`.
    """
    name = option.partition("=")[0].lstrip("-").replace("_", "-")
    here = (ALL | PEERS.get(kind, {})).get(name)
    return f"--{name} is called --{here} here" if here else ""
