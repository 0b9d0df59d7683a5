"""Test whether your own interventions keep the promises that every intervention makes.

  supple check my_method.py
  supple check my_method.py "my_method(lam=0.5)"

Each intervention is tried on small networks: a plain one, one with a target network, and a stack of three. The promises
are listed in docs/howto/add_intervention.md. The exit status is 1 if one of them is broken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.table import Table

from supple.engine.user_code import plugins
from supple.registry.errors import RunError, UsageError
from supple.scripts.cli.console import explain, parse, run, say, screen

MARKS = {"kept": "✓", "broken": "✗", "refused": "–"}


@dataclass(kw_only=True)
class Options:
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE|PACKAGE")]
    """Plug-in that registers the interventions."""
    calls: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CALL")] = ()
    """Intervention with parameters. Without it, all that the plug-in registers are tried with their defaults."""


def main(args: Sequence[str]) -> None:
    if not args:
        explain(__doc__, "supple check")
        return
    options = parse(Options, None, args, "supple check", __doc__)
    own = plugins.load(options.file, "FILE").registered["intervention"]
    if not own and not options.calls:
        raise UsageError(f"{options.file} registers no intervention: nothing can be checked")
    broken = {call: found for call in options.calls or own if (found := check(call))}
    if broken:
        count = sum(map(len, broken.values()))
        named = "; ".join(f"{call}: {', '.join(promises)}" for call, promises in broken.items())
        raise RunError(f"{options.file}: {count} {'promise is' if count == 1 else 'promises are'} not kept ({named})")


def check(call: str) -> list[str]:
    """Print which promises an intervention keeps, and return the broken ones.

    Raises:
        UsageError: The call names no intervention, or its parameters are wrong.
    """
    from supple.experiments.conformance import ALL, conform  # imports PyTorch, which help does not need

    try:
        findings = conform(call)
    except ValueError as error:
        raise UsageError(f'{error} (parameters are given as in: supple check FILE "name(parameter=value)")') from error
    networks = list(dict.fromkeys(each.network for each in findings if each.network != ALL))
    table = Table(title=call, title_justify="left", title_style="bold", box=None)
    for column in ("", *networks):
        table.add_column(column, justify="center" if column else "left")
    for promise in dict.fromkeys(finding.promise for finding in findings):
        marks = {each.network: MARKS[each.outcome] for each in findings if each.promise == promise}
        table.add_row(promise, *(marks.get(name, marks.get(ALL, "")) for name in networks))
    screen.print(table)
    told = dict.fromkeys((each.outcome, each.network, each.why) for each in findings if each.outcome != "kept")
    for outcome, name, why in told:
        say(f"{MARKS[outcome]} {name}: {why}")
    screen.print()
    return list(dict.fromkeys(each.promise for each in findings if each.outcome == "broken"))


if __name__ == "__main__":
    run(main)
