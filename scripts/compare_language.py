"""`supple compare language KIND`: arms in every variant of the settings, over seeds.

A second phase of pretraining starts from states of a trunk, which every start and every arm of a seed share; the other
kinds of runs are trained from the beginning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import tyro

from supple.experiments.compare import Comparison
from supple.experiments.errors import UsageError
from supple.interventions import did_you_mean
from supple.scripts.console import parse, typed
from supple.scripts.language import Options, S, kind_of, preset_name, settings_of_preset
from supple.tracks.language.kinds import KINDS
from supple.tracks.language.presets import PRESETS
from supple.tracks.language.pretrain.settings import BEST, PretrainSettings
from supple.tracks.language.settings import LanguageSettings


@dataclass(kw_only=True)
class LanguageCompareOptions(Options[S]):
    arm: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="HOOKS")] = ()
    """What is done: none, a hook, or hooks joined by " + ". May be given several times."""
    vary: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="SETTING=VALUES")] = ()
    """A setting and its values, such as learning_rate=1e-5,1e-4: every arm with each. Several make a grid."""
    seeds: tuple[int, ...] = (0,)
    """Seeds, each with runs of its own."""
    jobs: int = 0
    """Runs at a time; 0: one per core."""


def of_language(args: Sequence[str]) -> tuple[Path, Comparison, int]:
    """What the command line asks for: the folder, the comparison, the runs at a time. Raises UsageError."""
    kind = kind_of(args[1:], "compare language")
    preset = PRESETS.get(preset_name(args) or "")
    settings_type = KINDS[kind].settings()
    start = settings_type(**settings_of_preset(args, kind))
    default: Any = LanguageCompareOptions(settings=start, out=tyro.MISSING, seeds=preset.seeds if preset else (0,))
    prog = f"supple compare language {kind}"
    options = parse(LanguageCompareOptions, settings_type, args[2:], prog, "Compare arms.", default)
    vary = _read_vary(options.vary, settings_type) or (preset.vary if preset else {})
    settings, fork_step = options.settings, 0
    if isinstance(settings, PretrainSettings) and settings.second:
        settings, fork_step = _with_starts(settings, vary), settings.pretrain_steps
    elif "start" in vary:
        raise UsageError("--vary start=… needs a second phase: --second CORPUS")
    comparison = Comparison(
        algorithm=kind,
        settings=settings,
        arms=options.arm or (preset.arms if preset else ("none",)),
        seeds=options.seeds,
        fork_step=fork_step,
        command=typed("supple compare", args),
        variants=variants(vary, settings_type, prog),
    )
    return options.out, comparison, options.jobs


def _read_vary(texts: Sequence[str], settings: type[LanguageSettings]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    known = [name for name in settings.__dataclass_fields__ if name not in ("hook", "seed")]
    for text in texts:
        name, _, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if name not in known:
            raise UsageError(f"--vary {text}: no setting {name!r}{did_you_mean(name, known)}")
        given = tuple(value.strip() for value in values.split(",") if value.strip())
        if not given or len(set(given)) < len(given) or name in found:
            raise UsageError(f"--vary {text}: give each setting once, with different values, as NAME=VALUE,VALUE")
        found[name] = given
    return found


def variants(
    vary: Mapping[str, Sequence[str]], settings: type[LanguageSettings], prog: str
) -> tuple[dict[str, Any], ...]:
    """All combinations of the values, read as the command line reads these settings."""
    read = {name: [_value(name, value, settings, prog) for value in values] for name, values in vary.items()}
    return tuple(dict(zip(read, values, strict=True)) for values in product(*read.values()))


def _value(name: str, value: str, settings: type[LanguageSettings], prog: str) -> Any:
    option = f"--{name.replace('_', '-')}"
    return getattr(parse(settings, None, [option, *value.split()], prog, ""), name)


def _with_starts(settings: PretrainSettings, vary: Mapping[str, Sequence[str]]) -> PretrainSettings:
    """The settings of a trunk, which keeps the states at which second phases start."""
    starts = vary.get("start", (settings.start,))
    for start in starts:
        replace(settings, start=start).check()
    steps = sorted({int(start) for start in starts if start not in ("", BEST)} - {settings.pretrain_steps})
    keep = tuple(sorted({*settings.keep_at, *steps}))
    return replace(settings, start="", keep_at=keep, keep_best=settings.keep_best or BEST in starts)
