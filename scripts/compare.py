"""Compare interventions: train once up to the fork point, then continue from this identical state once per arm.

  supple compare ppo --preset gym-control-small --out runs/demo
  supple compare ppo --sequence hopper,ant --cycles 2 --steps-per-task 500_000 \\
      --fork-at 0.5 --arm none --arm fire@task --arm "snp(lam=0.5)@task" --seeds 0-4 --out runs/y
  supple compare dqn --preset fire-atari-small --out runs/z
  supple compare sac --preset fire-humanoid-small --out runs/h
  supple compare vision warm-start --data DIR --fork-at-task 1 --arm none --arm fire --seeds 0 1 2 --out runs/w
  supple compare pretrain --preset warm-start-gpt-small --out runs/g
  supple compare sft --model smollm2 --learn chem.jsonl --retain gsm8k.jsonl \\
      --vary learning_rate=1e-5,1e-4 --vary epochs=1,3 --arm none --arm sib@start --out runs/s
  supple compare clip --arm none --arm "l2_init(strength=1e-3)" --seeds 0-2 --out runs/c
  supple compare continual --preset moram-small --out runs/m
  supple compare linear --tasks semantic,reversal --arm none --arm "rebalance(lam=5)@task" --out runs/v
  supple compare runs/v --add-seeds 1-4

An arm is a hook, or several joined by " + ". By default, the fork point is where the hook that acts earliest can act
first; without such a hook, agents fork at half of the run. A hook without a schedule is applied at the fork point. A
fork point at the end of a task belongs to the next task: "@task" fires there, and hooks see the new task's data.
`supple resume DIR` continues a comparison that was interrupted. `supple compare DIR --add-seeds SEEDS` adds seeds.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import tyro

from supple.engine.kinds import Kind, all_kinds, value_of
from supple.engine.settings import SeedsOption
from supple.registry import schema
from supple.registry.errors import UsageError
from supple.registry.schema import NotNegative
from supple.scripts.cli import training
from supple.scripts.cli.console import join_command, parse, warn
from supple.scripts.cli.options import Folder, Options, Plugins, Request, parse_or_explain, request_or_help

if TYPE_CHECKING:
    from supple.experiments.sweeps.study import Study

S = TypeVar("S")
VALUE = re.compile(r"""(?:"[^"]*"|'[^']*'|\([^()]*\)|\[[^]]*\]|[^,])+""")  # of commas only these separate


@dataclass(kw_only=True)
class CompareOptions(Options[S]):
    arm: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="HOOKS")] = ()
    """An arm: none, a hook, or hooks joined by " + ". Give the option once for each arm."""
    reference: Literal["preset", "fresh", "none"] = "preset"
    """Additional arm as a reference. fresh is a new agent in every task; preset is the preset's reference, if any."""
    fork_at: float | None = None
    """Fork point as a fraction of the planned steps. 0: no trunk (default: the preset's, or where the hook
    that acts earliest can act first)."""
    fork_at_task: int | None = None
    """Fork point as the index of the task that begins there, counted from 0. Replaces --fork-at."""
    leads: Annotated[str | None, tyro.conf.arg(metavar="MEASURE")] = None
    """Primary measure, by which the report compares arms first, such as "final return" (default: the preset's, or
    that of the kind)."""
    vary: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="SETTING=VALUES")] = ()
    """Setting and its values, such as learning_rate=1e-5,1e-4. Every arm runs with each value; several options make a
    grid. Quote a value that contains a comma or a space: 'order="0,1","1,0"'."""
    jobs: NotNegative[int] = 0
    """Number of runs at a time. 0 means one per core."""


@dataclass(kw_only=True)
class SeveralRuns(CompareOptions[S]):
    """The options for kinds that train one seed per run. The settings of stacked runs have --seeds themselves."""

    seeds: SeedsOption = (0,)
    """Seeds, such as 0 1 2 or 0-4. Every arm runs with every seed. 5 means seed 5, not five seeds."""


@dataclass(kw_only=True)
class MoreSeeds:
    directory: Folder
    """Folder of a comparison. Its arms and settings are those with which it was started."""
    add_seeds: SeedsOption
    """Seeds to train in addition, such as 5-9. Runs that have ended stay as they are; the report has all seeds."""
    jobs: NotNegative[int] = 0
    """Number of runs at a time. 0 means one per core."""
    plugin: Plugins = ()
    """Plug-in that the comparison was started with. Each has to be named again."""


def main(args: Sequence[str]) -> None:
    if any(word.partition("=")[0].replace("_", "-") == "--add-seeds" for word in args):
        add_seeds(args)
        return
    request = request_or_help("compare", args, __doc__)
    options = parse_options(request)
    request.check_video(options.capture_video)
    training.train_comparison(options, ask(request, options).comparison(join_command("supple compare", args)))


def add_seeds(args: Sequence[str]) -> None:
    """Train more seeds in the folder of a comparison, and make the report over all."""
    if args[0] in all_kinds() and "--out" in args:
        raise UsageError("--add-seeds takes the settings from the folder: supple compare DIR --add-seeds SEEDS")
    options = parse_or_explain(MoreSeeds, args, "supple compare", __doc__)
    if (what := training.identify_folder(options.directory)) != "a comparison":
        raise UsageError(f"--add-seeds extends comparisons, but {options.directory} is {what}")

    from supple.experiments.sweeps import sweep

    processes = training.count_processes(options.jobs)
    queue = sweep.add_seeds(options.directory, options.add_seeds, processes, warn)
    training.finish_queue(options.directory, queue, processes)


def options_of(kind: Kind) -> Any:
    """Return the class of the options of a kind."""
    options: Any = CompareOptions if hasattr(kind.settings_class(), "seeds") else SeveralRuns
    return options[kind.settings_class()]


def parse_options(request: Request) -> Any:
    """Return the options of the command line."""
    options, preset, settings = options_of(request.kind), request.preset, request.settings()
    start: dict[str, Any] = {"settings": settings, "out": tyro.MISSING, "preset": preset and preset.name}
    if preset and not hasattr(settings, "seeds"):
        start["seeds"] = preset.seeds
    about, kind = request.about(__doc__), request.kind.name
    return parse(options, request.options, request.prog, about, options(**start), kind=kind)


def ask(request: Request, options: Any) -> "Study":
    """Return the study that the command line asks for."""
    from supple.experiments.sweeps.space import Space
    from supple.experiments.sweeps.study import Study

    kind, settings = request.kind, options.settings
    stacks = hasattr(settings, "seeds")
    if settings.seed and not (stacks and settings.seeds):
        raise UsageError(f"--seed {settings.seed} is for a single run: a comparison takes --seeds {settings.seed}")
    return Study(
        "",
        kind.name,
        options.preset,
        vars(settings),
        options.arm,
        None if stacks else options.seeds,
        None if options.reference == "preset" else options.reference,
        options.fork_at,
        options.fork_at_task,
        options.leads,
        Space(read_vary(options.vary, kind)),
    )


def read_vary(texts: Sequence[str], kind: Kind) -> dict[str, tuple[Any, ...]]:
    """Return the values of each setting by its name. texts: SETTING=VALUES, in the syntax of the command line."""
    values_of: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, _, listed = text.partition("=")
        name = name.strip().replace("-", "_")
        values = list(filter(None, map(str.strip, VALUE.findall(listed))))
        if not values or name in values_of:
            raise UsageError(f"--vary {text}: expected each setting once, as NAME=VALUE,VALUE")
        values_of[name] = tuple(value_of(kind, name, value, schema.read) for value in values)
    return values_of
