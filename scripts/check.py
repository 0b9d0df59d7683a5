"""Test whether your own interventions keep the promises that every intervention makes.

  supple check my_method.py
  supple check my_method.py "my_method(lam=0.5)"
  supple check net.py:make_body

Each intervention is tried on small networks: a plain one, one with a target network, and a stack of three. The promises
are listed in docs/howto/add_intervention.md. The exit status is 1 if one of them is broken. Of a network of your own
(--encoder), the last form says which units interventions on single units reach.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.table import Table

from supple.engine.user_code import plugins
from supple.registry.errors import RunError, UsageError
from supple.scripts.cli.console import say, screen
from supple.scripts.cli.options import parse_or_explain

MARKS = {"kept": "✓", "broken": "✗", "refused": "–"}


@dataclass(kw_only=True)
class Options:
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE|PACKAGE")]
    """Plug-in that registers the interventions, or FILE.py:FUNCTION of a network of your own."""
    calls: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CALL")] = ()
    """Intervention with parameters. Without it, all that the plug-in registers are tried with their defaults."""


def main(args: Sequence[str]) -> None:
    options = parse_or_explain(Options, args, "supple check", __doc__)
    if ".py:" in options.file:
        return check_network(options.file)
    registered = plugins.load(options.file, "FILE").registered["intervention"]
    calls = options.calls or registered
    if not calls:
        raise UsageError(f"{options.file} registers no intervention: nothing can be checked")
    broken = {call: check(call) for call in calls}
    if count := sum(map(len, broken.values())):
        details = "; ".join(f"{call}: {', '.join(promises)}" for call, promises in broken.items() if promises)
        raise RunError(f"{options.file}: {count} {'promise is' if count == 1 else 'promises are'} not kept ({details})")


def check_network(text: str) -> None:
    """Print the layers of a network of the user's, and of its units which ones interventions reach.

    Raises UsageError if it cannot be used, or returns no features."""
    from supple.agents.encoders import OwnNetwork  # imports PyTorch, which help does not need
    from supple.engine.user_code.networks import WIDTH, learner_from

    learner, remarks = learner_from(text)
    plugins.load(text, "FILE")
    try:
        features = OwnNetwork(text, WIDTH, None).features
    except ValueError as error:
        raise UsageError(str(error)) from error
    say(f"(n, {WIDTH}) → (n, {features})", *(f"layer {layer.name}: {layer.module}" for layer in learner.layers))
    reached = [f"{MARKS['kept']} {unit}" for unit in learner.wiring]
    say(*reached, *(f"{MARKS['refused']} {unit} {why}" for unit, why in learner.unwired.items()), *remarks)


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
    networks = list(dict.fromkeys(finding.network for finding in findings if finding.network != ALL))
    table = Table(title=call, title_justify="left", title_style="bold", box=None)
    for column in ("", *networks):
        table.add_column(column, justify="center" if column else "left")
    for promise in dict.fromkeys(finding.promise for finding in findings):
        marks = {finding.network: MARKS[finding.outcome] for finding in findings if finding.promise == promise}
        table.add_row(promise, *(marks.get(name, marks.get(ALL, "")) for name in networks))
    screen.print(table)
    unkept = [finding for finding in findings if finding.outcome != "kept"]
    say(*dict.fromkeys(f"{MARKS[finding.outcome]} {finding.network}: {finding.why}" for finding in unkept))
    screen.print()
    return list(dict.fromkeys(finding.promise for finding in unkept if finding.outcome == "broken"))
