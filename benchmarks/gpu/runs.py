"""Whole runs of every kind, with every intervention, on a GPU. Where there is none, on a simulated one.

    python benchmarks/gpu/runs.py [--runs dqn sac] [--hooks none fire@0.5] [--jobs 2] [--out runs.json]

It needs a build of PyTorch for CUDA (`pip install torch`) beside supple with its extras mujoco and language, in an
environment of their own. Every run trains, measures (without a hook all that there is to measure), evaluates and saves,
is interrupted after half its way and resumed, as `supple train` and `supple resume` do. On a GPU the updates of DQN and
SAC are recorded as graphs. On a simulated GPU (see pretended_gpu.py) nothing is computed and gradients are empty, so
that a run proves where tensors are, not what is in them. A combination that supple refuses before training, as it does
on a CPU, is listed with its reason. Exit status 1 if devices were mixed, or a run ended in any other error.
"""

import json
import multiprocessing
import sys
import tempfile
import traceback
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

import gymnasium as gym
import numpy as np
import torch
import tyro
from pretended_gpu import MIXED, simulated_gpu

from supple.engine.kinds import find_kind
from supple.engine.runs import open_run, prepare
from supple.engine.settings import RunSettings
from supple.engine.spec import RunSpec
from supple.interventions import interventions
from supple.metrics import metrics, trainability
from supple.registry.errors import UsageError

HOOKS = (
    "none", "adamo", "adam_rel@0.5", "cbp(replacement_rate=0.5,maturity=1)", "chain", "cpr(period=2)",
    "l2_er(period=2)", "dash(batches=2)@0.5", "ewc(samples=2)", "fire@0.5", "hare_tortoise@0.5", "injection@0.5",
    "l2_init", "muon@0.5", "nap@0.5", "parseval", "rebalance(lam=1)@0.5", "replay(keep=0.5)@0.5", "redo@0.5",
    "regrama@0.5", "reset@0.5", "sib@0.5", "snp(noise=0.1)@0.5", "snr(window=2,eta=0.4)", "soft_snp", "spectral",
    "swap(activation=elu)@0.5", "trac", "upgd", "wasserstein", "weight_clip",
)  # fmt: skip
GOOD = ("fine", "refused")  # what need not be tried again
REAL = torch.cuda.is_available()  # which a simulated GPU also answers
COSTLY = {"curvature": True, "trainability_every": 1_000_000}
EPISODES = {
    "eval_episodes": 1, "checkpoint_every": 40, "measure_every": 20, "max_episode_steps": 10, "cycles": 2,
    "steps_per_task": 40,
}  # fmt: skip
OFF_POLICY = {
    "num_envs": 2, "learning_starts": 10, "replay_size": 100, "batch_size": 4, "replay_ratio": 0.5,
} | EPISODES  # fmt: skip
ON_POLICY = {
    "num_envs": 2, "rollout_steps": 10, "epochs": 1, "minibatch_size": 10, "hidden": (8, 8), "adapter": 4,
    "compile": "off",
} | EPISODES  # fmt: skip
IMAGES = {"hidden": (8,), "adapter": None}
PAST = {  # two games, and evaluations on the first after the second
    "sequence": "minatar:breakout,minatar:freeway", "cycles": 1, "eval_tasks": "past", "schedule": "linear",
    "schedule_over": "run",
}  # fmt: skip
TRACK = {"measure_every": 4, "checkpoint_every": 4}
TEXT = {"model": "llama:32x2", "precision": "bfloat16", "batch_size": 4, "max_new_tokens": 2}


class Frames(gym.Env):
    """Images of random bytes, 64 × 64 × 3."""

    observation_space = gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: object = None) -> tuple[np.ndarray, dict[str, object]]:
        super().reset(seed=seed)
        return self.np_random.integers(0, 256, (64, 64, 3), np.uint8), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, object]]:
        return self.np_random.integers(0, 256, (64, 64, 3), np.uint8), float(action == 0), False, False, {}


gym.register("Frames-v0", Frames)
gym.register("HeavyPendulum-v0", gym.spec("Pendulum-v1").entry_point, kwargs={"g": 15.0})


@dataclass(frozen=True)
class Args:
    runs: tuple[str, ...] = ()  # by their names, as printed; default: all
    hooks: tuple[str, ...] = HOOKS
    jobs: int = 1
    out: Path | None = None  # a JSON file for what came out; what is fine or refused there is not tried again


def make_runs(data: Path) -> dict[str, tuple[str, dict[str, object]]]:
    """Return small runs: name → kind and settings."""
    digits, asked = str(data / "mnist"), [str(data / f"{name}_train.jsonl") for name in ("a", "b")]
    text = (str(data / "text.txt"),)
    vision = {
        "data": digits, "tasks": 2, "images": 48, "epochs": 1, "batch_size": 8, "compile": "off", "seeds": (0, 1),
        "activation": "rand_smooth_leaky",
    }  # fmt: skip
    warm = vision | {"stream": "chunks", "images": None, "first_epochs": 1, "seeds": (0,), "width": 4}
    return {
        "ppo": ("ppo", ON_POLICY | {"env": "Pendulum-v1", "activation": "relu"}),
        "ppo, two bodies": ("ppo", ON_POLICY | {
            "env": "CartPole-v1", "share_value": False, "normalization": "spectral", "activation": "rand_smooth_leaky",
        }),
        "ppo, two seeds": ("ppo", ON_POLICY | {
            "env": "CartPole-v1", "share_value": True, "seeds": (0, 1), "activation": "rand_smooth_leaky",
        }),
        "dqn": ("dqn", OFF_POLICY | {"env": "CartPole-v1", "hidden": (8, 8), "double_q": True}),
        "dqn, two seeds": ("dqn", OFF_POLICY | {
            "env": "CartPole-v1", "hidden": (8, 8), "seeds": (0, 1), "activation": "rand_smooth_leaky",
        }),
        "sac": ("sac", OFF_POLICY | {"env": "Pendulum-v1", "actor_width": 8, "critic_width": 8, "compile": "off"}),
        "sac, two seeds": ("sac", OFF_POLICY | {
            "env": "Pendulum-v1", "actor_width": 8, "critic_width": 8, "compile": "off", "seeds": (0, 1),
        }),
        "ppo, images": ("ppo", ON_POLICY | IMAGES | {
            "env": "Frames-v0", "encoder": "nature(channels=[4,4,4])", "num_envs": 8, "steps_per_task": 80,
            "schedule": "linear", "shift": "negate_reward",
        }),
        "ppo, minatar": ("ppo", ON_POLICY | IMAGES | PAST | {"encoder": "minatar(channels=[4])"}),
        "dqn, minatar": ("dqn", OFF_POLICY | PAST | {
            "encoder": "minatar(channels=[4])", "hidden": 8, "optimizer": "rmsprop",
            "replay_sampling": "recency(horizon=20)",
        }),
        "dqn, reservoir": ("dqn", OFF_POLICY | {
            "env": "CartPole-v1", "hidden": (8, 8), "seeds": (0, 1), "optimizer": "rmsprop", "schedule": "linear",
            "replay_sampling": "reservoir",
        }),
        "sac, heads": ("sac", OFF_POLICY | {
            "sequence": "Pendulum-v1,HeavyPendulum-v0", "cycles": 1, "heads": "environment", "eval_tasks": "past",
            "schedule": "cosine", "actor_width": 8, "critic_width": 8, "compile": "off",
        }),
        "sac, mlp": ("sac", OFF_POLICY | {"env": "Pendulum-v1", "network": "mlp", "hidden": (8, 8), "compile": "off"}),
        "vision, two seeds": ("vision", TRACK | vision),
        "vision, resnet": ("vision", TRACK | warm | {"network": "resnet18"}),
        "pretrain": ("pretrain", TRACK | {
            "first": text, "second": text, "tokenizer": "bytes", "layers": 1, "width": 16, "heads": 2,
            "block_size": 8, "batch_size": 4, "micro_batch": 2, "warmup": 1, "pretrain_steps": 4, "steps": 4,
            "val_sequences": 4, "dropout": 0.1, "precision": "bfloat16",
        }),
        "sft": ("sft", TRACK | TEXT | {
            "learn": asked[0], "retain": asked[1], "epochs": 1, "micro_batch": 2, "retain_batch": 4, "max_length": 64,
        }),
        **{
            f"continual, {method}": ("continual", TRACK | TEXT | {
                "method": method, "tasks": tuple(asked), "r": 2, "k": 2, "updates_per_task": 4,
            })
            for method in ("moram", "inclora")
        },
        "clip": ("clip", TRACK | {
            "model": "clip:32x1", "domains": ("mnist",), "data": str(data), "updates": 8, "batch_size": 8,
            "test_images": 8, "precision": "bfloat16",
        }),
        "linear": ("linear", TRACK | {"tasks": "semantic,reversal", "updates_per_task": 8}),
    }  # fmt: skip


def make_data(folder: Path) -> None:
    """Write digits in MNIST's format, two tasks of questions, and a text."""
    draw, words = np.random.default_rng(0), "the quick brown fox jumps over the lazy dog"
    (folder / "mnist").mkdir()
    for split, count in (("train", 120), ("t10k", 40)):
        images, labels = draw.integers(0, 256, (count, 28, 28), np.uint8), np.arange(count, dtype=np.uint8) % 10
        for name, array in ((f"{split}-images-idx3", images), (f"{split}-labels-idx1", labels)):
            head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            (folder / "mnist" / f"{name}-ubyte").write_bytes(head + array.tobytes())
    for name, split in (("a", "train"), ("a", "test"), ("b", "train"), ("b", "test")):
        lines = [json.dumps({"prompt": f"{name} {i}?", "answer": str(i % 2)}) for i in range(12)]
        (folder / f"{name}_{split}.jsonl").write_text("\n".join(lines))
    (folder / "text.txt").write_text("\n".join(" ".join(draw.permutation(words.split())) for _ in range(200)))


class Interrupted(Exception):
    """The run is half done."""


def train_in_two_halves(out: Path, kind: str, settings: RunSettings) -> None:
    """Train a run to its half, and from its checkpoint to its end."""
    run = prepare(RunSpec(kind, settings, command="benchmarks/gpu/runs.py"), out)
    run.close()
    end = run.spec.end

    def break_off(step: int) -> None:
        if 2 * step > end:
            raise Interrupted

    with suppress(Interrupted):
        open_run(out, lambda line: None).train(break_off)
    open_run(out, lambda line: None).train(lambda step: None)


def try_run(name: str, hook: str, data: Path) -> tuple[str, str, list[str]]:
    """Return what became of a run, in a word (`fine`, `refused`, `MIXED` or `FAILED`), why, and which of supple's
    metrics it measured."""
    torch.set_num_threads(1)
    kind, values = make_runs(data)[name]
    out = Path(tempfile.mkdtemp(dir=data)) / "run"
    with ExitStack() as stack:
        stack.enter_context(patch("supple.engine.work.trainability", partial(trainability, updates=2)))  # of 200
        if not REAL:
            stack.enter_context(simulated_gpu())
        try:
            train_in_two_halves(out, kind, make_settings(kind, values, hook))
        except UsageError as error:
            return "FAILED" if out.exists() else "refused", str(error), []
        except MIXED as error:
            return "MIXED", f"{find_own_line(error)}: {error}", []
        except Exception as error:  # whatever it is, it is to be looked at
            return "FAILED", f"{find_own_line(error)}: {type(error).__name__}: {error}", []
    rows = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    logged = {part for row in rows for key in row for part in key.split("/")}
    return "fine", "", sorted(logged & {*metrics.names(), "trainability"})


def find_own_line(error: Exception) -> str:
    """Return the last line of ours that the error went through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "torch" not in f.filename and Path(f.filename).parent != Path(__file__).parent]
    return f"{'/'.join(Path(own[-1].filename).parts[-2:])}:{own[-1].lineno}" if own else "?"


def make_settings(kind: str, values: dict[str, object], hook: str) -> RunSettings:
    own: dict[str, object] = COSTLY if hook == "none" else {"hook": (hook,)}
    if kind in ("dqn", "sac"):
        own = own | {"capture": REAL}  # a simulated GPU records nothing
    settings: RunSettings = find_kind(kind).settings_class()(device="cuda", **values, **own)
    settings.check()
    return settings


def main(args: Args) -> bool:
    if torch.version.cuda is None:
        raise SystemExit("this is PyTorch's build for the CPU: `pip install torch` brings that for CUDA")
    if untried := {*interventions.names()} - {hook.partition("(")[0].partition("@")[0] for hook in HOOKS}:
        raise SystemExit(f"HOOKS lacks {', '.join(sorted(untried))}")
    before = json.loads(args.out.read_text()) if args.out and args.out.exists() else {"runs": {}, "measured": {}}
    gpu = torch.cuda.get_device_name() if REAL else "simulated"
    table: dict[str, dict[str, str]] = before["runs"]
    measured: dict[str, list[str]] = before["measured"]
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool,
    ):
        make_data(Path(folder))
        names = args.runs or tuple(make_runs(Path(folder)))
        left = [(n, hook) for n in names for hook in args.hooks if not table.get(n, {}).get(hook, "F").startswith(GOOD)]
        waiting = {(n, hook): pool.submit(try_run, n, hook, Path(folder)) for n, hook in left}
        for (name, hook), future in waiting.items():
            word, reason, found = future.result()
            why = " ".join(reason.split())
            print(f"{name:18} {hook:38} {word:8} {why[:300]}", flush=True)
            table.setdefault(name, {})[hook] = f"{word}: {why}" if why else word
            if hook == "none":
                measured[name] = found
            if args.out:
                result = {"pytorch": torch.__version__, "gpu": gpu, "counts": count_words(table)}
                result |= {"runs": table, "measured": measured}
                unfinished = args.out.with_suffix(".part")
                unfinished.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
                unfinished.replace(args.out)
    found = count_words({name: table[name] for name in names})
    print(f"PyTorch {torch.__version__}, {gpu} GPU: " + ", ".join(f"{count} {word}" for word, count in found.items()))
    print(json.dumps(found))
    return not found.keys() & {"MIXED", "FAILED"}


def count_words(table: dict[str, dict[str, str]]) -> dict[str, int]:
    """Return how many combinations each word was said of."""
    words = [said.partition(":")[0] for row in table.values() for said in row.values()]
    return {word: words.count(word) for word in sorted(set(words))}


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
