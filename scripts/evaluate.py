"""Evaluate trained runs again, at their newest checkpoints or at a step.

  supple evaluate runs/a
  supple evaluate runs/a --tasks past --episodes 100
  supple evaluate runs/y --step 40_000

The numbers are those that runs log in their own evaluations: mean returns of agents, accuracies, scores or losses. The
folder may be that of a comparison or a sweep; each run and seed is a row. Nothing in it is changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from supple.registry.schema import Positive
from supple.scripts.cli.console import say, warn
from supple.scripts.cli.options import Folder, Plugins, parse_or_explain


@dataclass(kw_only=True)
class Options:
    directory: Folder
    """Folder of a run, a comparison or a sweep."""
    tasks: Literal["current", "past"] = "current"
    """Tasks to evaluate on: that of the checkpoint, or all that have begun by then."""
    step: int | None = None
    """Step of the checkpoint (default: the newest of each run)."""
    episodes: Positive[int] | None = None
    """Episodes of an agent in each task (default: as in the run, whose returns come out again)."""
    plugin: Plugins = ()
    """Plug-in that the runs were started with. Each has to be named again."""


def main(args: Sequence[str]) -> None:
    options = parse_or_explain(Options, args, "supple evaluate", __doc__)
    from supple.experiments import evaluate

    asked = {"tasks": options.tasks, "step": options.step, "episodes": options.episodes}
    frame = evaluate(options.directory, **asked, warn=warn)
    say(*frame.to_string(index=False, na_rep="", float_format="{:,.4g}".format).split("\n"))
