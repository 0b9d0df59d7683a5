"""List everything that has a name: kinds, presets, suites, interventions, environments and the rest.

  supple list                                  the names of each topic, on one screen
  supple list interventions                    one topic, in full
  supple list metrics --match dormant          names and descriptions that contain a word
  supple list presets suites --kind ppo        those of one kind of run
  supple list metrics --plugin my_metric.py    with the names of a plug-in

If the output is not a terminal, lines are never wrapped: `supple list metrics | grep plasticity`.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Annotated, Any, NamedTuple

import tyro
from rich.table import Table
from rich.text import Text

from supple.engine.kinds import all_kinds, presets_of
from supple.engine.user_code import plugins
from supple.registry import Registry, describe_unknown
from supple.registry.errors import UsageError
from supple.scripts.cli.console import join_command, parse, say, screen
from supple.scripts.cli.options import Plugins, load_plugins


class Entry(NamedTuple):
    """A line of the list: a name, its description, its parameters, and the kinds of runs that it is restricted to."""

    name: str
    about: str
    parameters: str = ""
    kinds: tuple[str, ...] = ()


Entries = Iterable[Entry]


@dataclass(kw_only=True)
class Options:
    topics: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TOPIC …")] = ()
    """Topics to list in full: TOPICS (default: names only, as many of each topic as fit on a screen)."""
    match: str = ""
    """Text that names or descriptions have to contain; case does not matter."""
    kind: Annotated[str | None, tyro.conf.arg(metavar="KIND")] = None
    """Kind of run, such as ppo. Lists only what belongs to it, such as its presets and suites."""
    plugin: Plugins = ()
    """Python file or package whose registrations are listed too."""


def description(thing: object) -> str:
    """Return the first paragraph of a docstring in one line."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def parameters(thing: Callable[..., object]) -> str:
    """Return the parameters as a user would type them: (parameter=default, …)."""
    items = inspect.signature(thing).parameters.values()
    shown = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default}" for p in items if p.name != "self")
    return f"({shown})"


def registered(place: str) -> Entries:
    """Yield an entry for each class or function in the registry at a place, `module:name`."""
    registry: Registry[Any] = resolve_name(f"supple.{place}")
    for name in registry.names():
        thing = registry.get(name)
        yield Entry(name, description(thing), parameters(thing))


def activation_properties() -> Table:
    """Return a table of the properties at default parameters. docs/reference/activations.md explains the columns."""
    from supple.interventions import activation, activation_registry, properties

    table = Table(title="properties at these parameters", title_justify="left", title_style="bold", box=None)
    table.add_column("", style="cyan")
    for column in ("floor", "s̄", "dead band"):
        table.add_column(column, justify="right")
    table.add_column("saturates")
    marks = ("C¹", "monotone", "self-norm.", "dead zone", "∇ x<0", "adaptive", "f″")
    for column in marks:
        table.add_column(column, justify="center")
    for name in activation_registry.names():
        p = properties(activation(name))
        shown = (p.smooth, p.monotone, p.self_normalizing, p.dead_zone, p.passes_negative, p.adaptive, p.curved)
        numbers = (f"{p.floor:.3f}", f"{p.negative_slope:.3f}", f"{p.dead_band:.1%}")
        table.add_row(name, *numbers, p.saturates, *("✓" if mark else "–" for mark in shown))
    return table


def metrics() -> Entries:
    from supple.metrics import METRICS

    for name, metric in METRICS.items():
        yield Entry(name, metric.about + (" [costly: computed only on request]" if metric.costly else ""))


def environments() -> Entries:
    from supple.envs import environment_names, resolve_env

    for name in environment_names():
        yield Entry(name, resolve_env(name))
    for plugin in plugins.loaded():
        for name in plugin.registered["environment"]:
            yield Entry(name, f"registered by {plugin.name}")
    yield Entry("…", "any other Gymnasium id: vectors or images; discrete actions for dqn, continuous ones for sac")
    yield Entry("…", "games of Atari, MinAtar and MiniGrid: supple list games")


def games() -> Entries:
    from supple.envs import PACKAGED, packaged_names
    from supple.envs import games as atari

    of_packages: list[Callable[[], dict[str, str]]] = [atari, *(partial(packaged_names, module) for module in PACKAGED)]
    for names in of_packages:
        try:
            yield from (Entry(*item) for item in sorted(names().items()))
        except ImportError as error:
            yield Entry("…", str(error))


def sequences() -> Entries:
    from supple.envs import SEQUENCES

    for name, envs in SEQUENCES.items():
        yield Entry(name, " → ".join(envs))


def kinds() -> Entries:
    for name, kind in all_kinds().items():
        yield Entry(name, f"{kind.about}; its steps are {kind.unit}", kinds=(name,))


def presets(benchmark: bool = False) -> Entries:
    """Yield the presets, or those that are benchmarks."""
    for name, preset in presets_of().items():
        if all_kinds()[preset.kind].benchmark == benchmark:
            yield Entry(name, f"{preset.kind}: {preset.about}", kinds=(preset.kind,))


def suites() -> Entries:
    from supple.experiments.sweeps.suites import about, kinds_of, suites

    for name in suites():
        yield Entry(name, about(name), kinds=kinds_of(name))


ALSO = {  # as options call them, and as games are called
    "hooks": "interventions", "replay_sampling": "samplings", "replay-sampling": "samplings",
    **dict.fromkeys(("atari", "minatar", "minigrid"), "games"),
}  # fmt: skip
LONG = ("games",)  # filtered only on request
WIDTH, LINES = 80, 2  # of the names of a topic, if all topics are listed
TOPICS: dict[str, tuple[str, Callable[[], Entries]]] = {  # where the names are typed, and the names
    "kinds": ("supple train KIND, supple compare KIND", kinds),
    "presets": ("--preset NAME", presets),
    "benchmarks": ("supple train vision BENCHMARK", partial(presets, benchmark=True)),
    "suites": ("supple sweep SUITE", suites),
    "interventions": ("--hook, --arm, with a schedule: fire@0.5", partial(registered, "interventions:interventions")),
    "activations": ("--activation", partial(registered, "interventions:activation_registry")),
    "metrics": ("logged every --measure-every steps", metrics),
    "environments": ("--env, --sequence", environments),
    "games": ("--env, --sequence", games),
    "sequences": ("--sequence", sequences),
    "shifts": ("--shift", partial(registered, "envs:shifts")),
    "encoders": ("--encoder, for images", partial(registered, "agents.encoders:encoders")),
    "samplings": ("--replay-sampling", partial(registered, "agents.offpolicy.sampling:samplings")),
}


def main(args: Sequence[str]) -> None:
    load_plugins(args)
    options = parse(Options, args, "supple list", f"{__doc__}\nTOPICS are {', '.join(TOPICS)}.")
    topics = [ALSO.get(topic, topic) for topic in options.topics]
    for topic in topics:
        if topic not in TOPICS:
            raise UsageError(describe_unknown("topic", topic, TOPICS))
    if options.kind is not None and options.kind not in all_kinds():
        raise UsageError(f"--kind: {describe_unknown('kind of run', options.kind, all_kinds())}")
    if not (topics or options.match or options.kind):
        _print_overview()
        return
    empty = True
    for topic in topics or (name for name in TOPICS if name not in LONG):
        where, entries = TOPICS[topic]
        selected = [entry for entry in entries() if _is_wanted(entry, options)]
        if not selected:
            continue
        empty = False
        screen.print(Text.assemble((topic, "bold"), f"  ({where})"))
        _show(selected)
        if topic == "activations" and not options.match:
            screen.print()
            screen.print(activation_properties())
        screen.print()
    if empty:
        raise UsageError(f"nothing found by `{join_command('supple list', args)}`")


def _print_overview() -> None:
    """Print how many names each topic has, where they are typed, and as many of them as fit on a few lines."""
    for topic, (where, entries) in TOPICS.items():
        names = [entry.name for entry in entries() if entry.name != "…"]
        screen.print(Text.assemble((topic, "bold"), f"  {len(names)}  ({where})"), soft_wrap=True)
        lines = textwrap.wrap(
            ", ".join(names), WIDTH, initial_indent="  ", subsequent_indent="  ", max_lines=LINES,
            placeholder=" …", break_on_hyphens=False, break_long_words=False,
        )  # fmt: skip
        for line in lines:
            screen.print(Text(line, "cyan"), soft_wrap=True)
    say("`supple list TOPIC` describes all names of a topic, `--match TEXT` finds names.")


def _is_wanted(entry: Entry, options: Options) -> bool:
    text = f"{entry.name} {entry.about}".lower()
    return options.match.lower() in text and (options.kind is None or options.kind in entry.kinds)


def _show(entries: Sequence[Entry]) -> None:
    """Print names with parameters, and descriptions: in two columns in a terminal, in one line each elsewhere."""
    names = [entry.name + entry.parameters for entry in entries]
    abouts = [entry.about for entry in entries]
    if not screen.is_terminal:
        for name, about in zip(names, abouts, strict=True):
            screen.print(Text.assemble("  ", (name, "cyan"), "  ", about), soft_wrap=True)
        return
    table = Table(box=None, show_header=False)
    table.add_column(style="cyan")
    table.add_column()
    for name, about in zip(names, abouts, strict=True):
        table.add_row(name, about)
    screen.print(table)
