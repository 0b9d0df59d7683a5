"""supple train: train one agent, with hooks.

supple train ppo --env halfcheetah --steps 1_000_000 --hook fire@0.5 --out runs/a
supple train dqn --env asterix --steps 2_500_000 --hook fire@0.5 --out runs/c
supple train ppo --preset cycling-mujoco --activation rand_smooth_leaky --out runs/b
supple train --resume runs/a
"""

from collections.abc import Sequence
from itertools import pairwise

import tyro

from supple.agents.algorithms import ALGORITHMS
from supple.agents.presets import PRESETS, Preset
from supple.agents.runs import create, train
from supple.experiments.errors import UsageError
from supple.experiments.rundir import RunDirectory
from supple.registry import did_you_mean
from supple.scripts.console import PresetOptions, Resume, finish, parse, run, typed, warn
from supple.tracks.kinds import KINDS


def algorithm_of(args: Sequence[str], command: str) -> str:
    """The algorithm that a command line names first. Raises UsageError if it names none."""
    name = args[0] if args and not args[0].startswith("-") else ""
    if name not in ALGORITHMS:
        what = f"unknown algorithm {name!r}{did_you_mean(name, ALGORITHMS)}" if name else "which algorithm?"
        raise UsageError(f"{what} (`supple {command} ALGORITHM …`; algorithms: {', '.join(ALGORITHMS)})")
    return name


def preset_of(args: Sequence[str], algorithm: str) -> Preset | None:
    """The preset that a command line asks for. Raises UsageError if it does not exist or does not fit."""
    names = [b for a, b in pairwise([*args, ""]) if a == "--preset"]
    names += [a.removeprefix("--preset=") for a in args if a.startswith("--preset=")]
    if not names:
        return None
    if names[-1] not in PRESETS:
        raise UsageError(
            f"unknown preset {names[-1]!r}{did_you_mean(names[-1], PRESETS)} (known: {', '.join(PRESETS)})"
        )
    preset = PRESETS[names[-1]]
    if preset.algorithm != algorithm:
        raise UsageError(f"preset {names[-1]!r} is one for {preset.algorithm}, not for {algorithm}")
    return preset


def main(args: Sequence[str]) -> None:
    if not args or args[0] in ("-h", "--help"):
        print((__doc__ or "").strip() + f"\n\nalgorithms: {', '.join(ALGORITHMS)} (`supple train ppo --help`)")
        return
    if any(a == "--resume" or a.startswith("--resume=") for a in args):
        path = parse(Resume, None, args, "supple train", "Go on with a run.").resume
        kind = RunDirectory.open(path).config["algorithm"]
        if kind == "vision":
            raise UsageError(f"{path} is a run of classifiers: go on with it by `supple vision --resume {path}`")
        if kind in KINDS:
            script = KINDS[kind].script
            raise UsageError(f"{path} is a run of {kind}: go on with it by `supple {script} --resume {path}`")
        finish(path, train)
        return
    algorithm = algorithm_of(args, "train")
    kind, preset = ALGORITHMS[algorithm].settings, preset_of(args, algorithm)
    default = PresetOptions(settings=kind(**(preset.settings if preset else {})), out=tyro.MISSING)
    options = parse(PresetOptions, kind, args[1:], f"supple train {algorithm}", "Train one agent, with hooks.", default)
    create(options.out, algorithm, options.settings, typed("supple train", args), warn)
    finish(options.out, train)


if __name__ == "__main__":
    run(main)
