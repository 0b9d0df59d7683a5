"""supple check: try whether interventions of one's own keep what every intervention promises.

  supple check my_method.py
  supple check my_method.py "my_method(lam=0.5)"

Each is tried on small networks: plain, with a target network, and a stack of three. Promises: docs/howto/extending.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.table import Table

from supple.experiments import plugins
from supple.experiments.errors import RunError, UsageError
from supple.scripts.console import parse, run, screen

MARKS = {"kept": "✓", "broken": "✗", "refused": "–"}


@dataclass(kw_only=True)
class Options:
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE|PACKAGE")]
    """The plug-in that registers the interventions."""
    calls: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CALL")] = ()
    """Interventions with the parameters to try them with; default: all that it registers, with theirs."""


def main(args: Sequence[str]) -> None:
    if not args:
        print((__doc__ or "").strip())
        return
    options = parse(Options, None, args, "supple check", (__doc__ or "").strip())
    own = plugins.load(options.file, "FILE").registered["intervention"]
    if not own and not options.calls:
        raise UsageError(f"{options.file} registers no intervention, and only those are checked")
    broken = sum(check(call) for call in options.calls or own)
    if broken:
        raise RunError(f"{broken} of what every intervention promises {'is' if broken == 1 else 'are'} not kept")


def check(call: str) -> int:
    """Print what an intervention keeps of its promises, and return how many it breaks. Raises UsageError."""
    from supple.experiments.conformance import ALL, conform  # PyTorch, which help texts do without

    try:
        findings = conform(call)
    except ValueError as error:
        raise UsageError(f'{error} (give parameters so: supple check FILE "name(parameter=value)")') from error
    networks = list(dict.fromkeys(each.network for each in findings if each.network != ALL))
    table = Table(title=call, title_justify="left", title_style="bold", box=None)
    for column in ("", *networks):
        table.add_column(column, justify="center" if column else "left")
    for promise in dict.fromkeys(finding.promise for finding in findings):
        marks = {each.network: MARKS[each.outcome] for each in findings if each.promise == promise}
        table.add_row(promise, *(marks.get(name, marks.get(ALL, "")) for name in networks))
    screen.print(table, highlight=False)
    told = dict.fromkeys((each.outcome, each.network, each.why) for each in findings if each.outcome != "kept")
    for outcome, name, why in told:
        screen.print(f"{MARKS[outcome]} {name}: {why}", highlight=False, markup=False, soft_wrap=True)
    screen.print()
    return len({each.promise for each in findings if each.outcome == "broken"})


if __name__ == "__main__":
    run(main)
