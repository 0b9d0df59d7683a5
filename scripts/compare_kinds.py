"""`supple compare language KIND` and `supple compare linear`: arms in every variant of the settings, over seeds.

A second phase of pretraining starts from states of a trunk, which every start and every arm of a seed share; the other
kinds of runs are trained from the beginning.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import tyro

from supple.experiments.compare import Comparison
from supple.experiments.errors import UsageError
from supple.registry import did_you_mean
from supple.scripts.console import Options, PresetOptions, S, parse, typed
from supple.scripts.language import kind_of, preset_name, settings_of_preset
from supple.tracks.kinds import KINDS
from supple.tracks.language.presets import PRESETS, Preset
from supple.tracks.language.pretrain.settings import BEST, PretrainSettings
from supple.tracks.settings import TrackSettings

# Settings of pretraining that say what the first phase is.
OF_THE_TRUNK = (
    "first", "first_share", "tokenizer", "layers", "width", "heads", "block_size", "activation", "pretrain_steps",
    "warmup", "keep_at", "keep_best",
)  # fmt: skip
VALUE = re.compile(r"""(?:"[^"]*"|'[^']*'|\([^()]*\)|[^,])+""")  # commas in quotes and brackets part nothing


@dataclass(kw_only=True)
class VariedOptions(Options[S]):
    arm: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="HOOKS")] = ()
    """What is done: none, a hook, or hooks joined by " + ". May be given several times."""
    vary: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="SETTING=VALUES")] = ()
    """A setting and its values, such as learning_rate=1e-5,1e-4: every arm with each. Several make a grid.
    A value with a comma or a space stands in quotes: 'order="0,1","1,0"'."""
    seeds: tuple[int, ...] = (0,)
    """Seeds, each with runs of its own."""
    jobs: int = 0
    """Runs at a time; 0: one per core."""


@dataclass(kw_only=True)
class VariedPresetOptions(VariedOptions[S], PresetOptions[S]):
    """The same where a preset can say what is varied; `--vary` takes its place."""


def of_language(args: Sequence[str]) -> tuple[Path, Comparison, int]:
    """What `supple compare language KIND` asks for: the folder, the comparison, the runs at a time.

    Raises UsageError."""
    kind = kind_of(args[1:], "compare language")
    preset = PRESETS.get(preset_name(args) or "")
    start = KINDS[kind].settings()(**settings_of_preset(args, kind))
    default: Any = VariedPresetOptions(settings=start, out=tyro.MISSING, seeds=preset.seeds if preset else (0,))
    return _asked(kind, f"language {kind}", args, default, preset)


def of_linear(args: Sequence[str]) -> tuple[Path, Comparison, int]:
    """The same for `supple compare linear`."""
    default: Any = VariedOptions(settings=KINDS["linear"].settings()(), out=tyro.MISSING)
    return _asked("linear", "linear", args, default, None)


def _asked(
    kind: str, words: str, args: Sequence[str], default: Any, preset: Preset | None
) -> tuple[Path, Comparison, int]:
    """words: of the command line, those that name the kind; its options follow them."""
    settings_type, prog = KINDS[kind].settings(), f"supple compare {words}"
    options = parse(type(default), settings_type, args[len(words.split()) :], prog, "Compare arms.", default)
    given = _read_vary(options.vary, settings_type)
    vary: dict[str, tuple[str, ...]] = given or dict(preset.vary if preset else {})
    settings, fork_step = options.settings, 0
    if settings.seed:
        raise UsageError(f"--seed belongs to a single run; a comparison has --seeds {settings.seed}")
    if isinstance(settings, PretrainSettings):
        if settings.start:
            if "start" in given:
                raise UsageError("--start and --vary start=… both say where second phases begin: give one of them")
            vary["start"] = (settings.start,)
        if settings.second:
            _check_trunk(settings, vary)
            settings, fork_step = _with_starts(settings, vary), settings.pretrain_steps
        elif "start" in vary:
            raise UsageError(f"a start ({', '.join(vary['start'])}) needs a second phase: --second CORPUS")
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


def _read_vary(texts: Sequence[str], settings: type[TrackSettings]) -> dict[str, tuple[str, ...]]:
    """Name of a setting → its values as they were typed."""
    found: dict[str, tuple[str, ...]] = {}
    known = [name for name in settings.__dataclass_fields__ if name not in ("hook", "seed")]
    for text in texts:
        name, _, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if name not in known:
            raise UsageError(f"--vary {text}: no setting {name!r}{did_you_mean(name, known)}")
        given = tuple(value for part in VALUE.findall(values) if (value := part.strip()))
        if not given or len(set(given)) < len(given) or name in found:
            raise UsageError(f"--vary {text}: give each setting once, with different values, as NAME=VALUE,VALUE")
        found[name] = given
    return found


def variants(vary: Mapping[str, Sequence[str]], settings: type[TrackSettings], prog: str) -> tuple[dict[str, Any], ...]:
    """All combinations of the values, read as the command line reads these settings."""
    read = {name: [_value(name, value, settings, prog) for value in values] for name, values in vary.items()}
    for name, values in read.items():
        if any(values.count(value) > 1 for value in values):
            raise UsageError(f"--vary {name}={','.join(vary[name])}: two of the values are the same")
    return tuple(dict(zip(read, values, strict=True)) for values in product(*read.values()))


def _value(name: str, value: str, settings: type[TrackSettings], prog: str) -> Any:
    option, several = f"--{name.replace('_', '-')}", isinstance(settings.__dataclass_fields__[name].default, tuple)
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise UsageError(f"--vary {name}={value}: {str(error).lower()}") from error
    return getattr(parse(settings, None, [option, *(words if several else [" ".join(words)])], prog, ""), name)


def _check_trunk(settings: PretrainSettings, vary: Mapping[str, Sequence[str]]) -> None:
    """Raise UsageError for what cannot vary between arms that share a first phase."""
    if name := next((name for name in vary if name in OF_THE_TRUNK), None):
        raise UsageError(f"--vary {name}=…: all arms share the first phase, so what it depends on cannot vary")
    if "second" in vary and settings.tokenizer.startswith("bpe:"):
        raise UsageError(
            "--vary second=…: the tokenizer is trained on all corpora, and all arms share the first phase: give "
            "--tokenizer bytes or a tokenizer.json"
        )


def _with_starts(settings: PretrainSettings, vary: Mapping[str, Sequence[str]]) -> PretrainSettings:
    """The settings of a trunk, which keeps the states at which second phases start."""
    starts = vary.get("start", (settings.start,))
    for start in starts:
        replace(settings, start=start).check()
    steps = sorted({int(start) for start in starts if start not in ("", BEST)} - {settings.pretrain_steps})
    keep = tuple(sorted({*settings.keep_at, *steps}))
    return replace(settings, start="", keep_at=keep, keep_best=settings.keep_best or BEST in starts)
