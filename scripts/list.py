"""List everything that has a name: interventions, environments, presets and the rest.

supple list
supple list interventions
supple list games
supple list --plugin my_method.py
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.markup import escape
from rich.table import Table

from supple.experiments import plugins
from supple.experiments.errors import UsageError
from supple.registry import did_you_mean
from supple.scripts.asked import Plugins, load_plugins
from supple.scripts.console import parse, run, screen

Rows = Iterable[tuple[str, str]]


@dataclass(kw_only=True)
class Options:
    topics: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TOPIC")] = ()
    """Topic to list. Without one, all but games are listed."""
    plugin: Plugins = ()
    """Python file or package whose registrations are listed too."""


def first_sentence(thing: object) -> str:
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def parameters(thing: Callable[..., object]) -> str:
    """Return the parameters as a user would type them: parameter=default, …"""
    items = inspect.signature(thing).parameters.values()
    return ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default}" for p in items if p.name != "self")


def interventions() -> Rows:
    from supple.interventions import interventions as registry

    for name in registry.names():
        entry = registry.get(name)
        yield f"{name}({parameters(entry)})", first_sentence(entry)


def activations() -> Rows:
    from supple.interventions import activation_registry

    for name in activation_registry.names():
        entry = activation_registry.get(name)
        yield f"{name}({parameters(entry)})", first_sentence(entry)


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


def metrics() -> Rows:
    from supple.metrics import METRICS

    for name, metric in METRICS.items():
        yield name, metric.about + (" [costly: computed only on request]" if metric.costly else "")


def environments() -> Rows:
    from supple.envs import environment_names, resolve_env

    for name in environment_names():
        yield name, resolve_env(name)
    for plugin in plugins.loaded():
        for name in plugin.registered["environment"]:
            yield name, f"registered by {plugin.name}"
    yield (
        "…",
        "any other registered Gymnasium id: vectors for ppo and sac, images or vectors with discrete actions for dqn",
    )
    yield "…", "Atari games for dqn: supple list games"


def games() -> Rows:
    from supple.envs import games as atari

    try:
        yield from sorted(atari().items())
    except ImportError as error:
        yield "…", str(error)


def sequences() -> Rows:
    from supple.envs import SEQUENCES

    for name, envs in SEQUENCES.items():
        yield name, " → ".join(envs)


def shifts() -> Rows:
    from supple.envs import shifts as registry

    for name in registry.names():
        entry = registry.get(name)
        yield f"{name}({parameters(entry)})", first_sentence(entry)


def kinds() -> Rows:
    from supple.experiments.kinds import all_kinds

    for name, kind in all_kinds().items():
        yield name, f"{kind.about}; its steps are {kind.unit}"


def presets() -> Rows:
    from supple.experiments.kinds import presets_of

    for name, preset in presets_of().items():
        yield name, f"{preset.kind}: {preset.about}"


def suites() -> Rows:
    from supple.experiments.suites import about, suites

    for name in suites():
        yield name, about(name)


LONG = ("games",)  # shown only when asked for
TOPICS: dict[str, Callable[[], Rows]] = {
    "interventions": interventions,
    "activations": activations,
    "metrics": metrics,
    "environments": environments,
    "games": games,
    "sequences": sequences,
    "shifts": shifts,
    "kinds": kinds,
    "presets": presets,
    "suites": suites,
}
MORE: dict[str, Callable[[], Table]] = {"activations": activation_properties}  # a second table under a topic's own


def main(args: Sequence[str]) -> None:
    if args and args[0] in ("-h", "--help"):
        print((__doc__ or "").strip() + f"\n\ntopics: {', '.join(TOPICS)}")
        return
    load_plugins(args)
    options = parse(Options, None, args, "supple list", "What there is, by name.")
    for topic in options.topics or (name for name in TOPICS if name not in LONG):
        if topic not in TOPICS:
            raise UsageError(f"unknown topic {topic!r}{did_you_mean(topic, TOPICS)} (known: {', '.join(TOPICS)})")
        table = Table(title=topic, title_justify="left", title_style="bold", box=None, show_header=False)
        table.add_column(style="cyan")
        table.add_column()
        for name, about in TOPICS[topic]():
            table.add_row(escape(name), escape(about))
        screen.print(table, highlight=False)
        if topic in MORE:
            screen.print()
            screen.print(MORE[topic](), highlight=False)
        screen.print()


if __name__ == "__main__":
    run(main)
