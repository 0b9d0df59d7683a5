"""supple language: language models and their adapters, on a world that changes.

supple language pretrain --preset warm-start-gpt-small --hook "fire(steps=5)@task" --out runs/g
supple language sft --model smollm2 --learn chem.jsonl --retain gsm8k.jsonl --hook sib@start --out runs/s
supple language sib --model smollm2 --retain gsm8k.jsonl --out runs/balanced
supple language continual --preset moram-small --out runs/c
supple language --resume runs/g
torchrun --nproc-per-node 2 -m supple.scripts.language pretrain --preset warm-start-gpt --out runs/g
"""

import contextlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import tyro

from supple.experiments.errors import UsageError
from supple.experiments.settings import device_here
from supple.registry import did_you_mean
from supple.scripts.console import PresetOptions, Resume, finish, parse, run, typed, warn
from supple.tracks import distributed
from supple.tracks.kinds import KINDS, kinds_of
from supple.tracks.language.presets import PRESETS
from supple.tracks.runs import create, train


def main(args: Sequence[str]) -> None:
    if not args or args[0] in ("-h", "--help"):
        lines = [f"  {name:10}{kind.about}" for name, kind in kinds_of("language").items()]
        lines.append("  sib       balance a causal language model, and say what that changed")
        print("\n".join([(__doc__ or "").strip(), "", *lines]))
        return
    if any(a == "--resume" or a.startswith("--resume=") for a in args):
        _train(parse(Resume, None, args, "supple language", "Go on with a run.").resume)
        return
    if args[0] == "sib":
        from supple.scripts.sib import main as balance

        balance(args[1:])
        return
    kind = kind_of(args, "language")
    settings, preset = KINDS[kind].settings(), settings_of_preset(args, kind)
    default = PresetOptions(settings=settings(**preset), out=tyro.MISSING)
    options = parse(PresetOptions, settings, args[1:], f"supple language {kind}", KINDS[kind].about, default)
    if distributed.first():
        create(options.out, kind, options.settings, typed("supple language", args), warn)
    with distributed.processes(
        device_here(options.settings.device)
    ):  # the others wait in here until the first has made the folder
        _train(options.out)


def _train(path: Path) -> None:
    if distributed.first():
        finish(path, train)
    else:
        with contextlib.suppress(KeyboardInterrupt):
            train(path, lambda step: None, lambda line: None)


def kind_of(args: Sequence[str], command: str) -> str:
    """The kind of run that a command line names first. Raises UsageError if it names none."""
    name = args[0] if args and not args[0].startswith("-") else ""
    kinds = kinds_of("language")
    known = (*kinds, "sib") if command == "language" else tuple(kinds)
    if name not in kinds:
        what = f"unknown kind of run {name!r}{did_you_mean(name, known)}" if name else "which kind of run?"
        raise UsageError(f"{what} (`supple {command} KIND …`; kinds: {', '.join(known)})")
    return name


def settings_of_preset(args: Sequence[str], kind: str) -> Mapping[str, Any]:
    """The settings of the preset that a command line asks for, if any. Raises UsageError if it does not fit."""
    name = preset_name(args)
    if name is None:
        return {}
    if name not in PRESETS:
        raise UsageError(f"unknown preset {name!r}{did_you_mean(name, PRESETS)} (known: {', '.join(PRESETS)})")
    preset = PRESETS[name]
    if preset.kind != kind:
        raise UsageError(f"preset {name!r} is one for {preset.kind}, not for {kind}")
    return preset.settings


def preset_name(args: Sequence[str]) -> str | None:
    names = [b for a, b in pairwise([*args, ""]) if a == "--preset"]
    names += [a.removeprefix("--preset=") for a in args if a.startswith("--preset=")]
    return names[-1] if names else None


if __name__ == "__main__":
    run(main)
