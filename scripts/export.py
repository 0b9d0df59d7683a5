"""Make a folder of a trained run for others, which the Hugging Face hub takes as it is.

  supple export runs/a --out my-agent
  supple export runs/b/seed-0/fire --step 40_000 --out early
  hf upload OWNER/NAME my-agent

The folder has the networks (safetensors), the configuration, the logs, and a model card (README.md) made of the report.
Optimizers and replay memories are left out. From Python, Trained("my-agent") acts, and load reads the results.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from supple.registry import quoted
from supple.registry.errors import UsageError
from supple.scripts.cli import training
from supple.scripts.cli.console import say
from supple.scripts.cli.options import Folder, Plugins, parse_or_explain


@dataclass(kw_only=True)
class Options:
    directory: Folder
    """Folder of a run, which may be one of a comparison."""
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")]
    """Folder for the result. It must be new or empty."""
    step: int | None = None
    """Step of the checkpoint (default: the newest). --keep-at and --keep-best keep others."""
    plugin: Plugins = ()
    """Plug-in that registers the kind of the run."""


def main(args: Sequence[str]) -> None:
    options = parse_or_explain(Options, args, "supple export", __doc__)
    path = options.directory
    if (what := training.identify_folder(path)) != "a run":
        raise UsageError(f"{path} is {what}: give the folder of one of its runs, such as {path}/seed-0/none")
    from supple.reports.export import export  # matplotlib takes a moment

    step = export(path, options.out, options.step)
    say(
        f"exported: {options.out}, the networks at step {step:,}",
        f"next: hf upload OWNER/NAME {quoted(options.out)}",
    )
