"""The model card of an exported run: README.md, whose header the Hugging Face hub reads."""

import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING, Any

from supple.reports.studies.content import Content, Description
from supple.reports.tables.table import join_words

from .exports import as_markdown
from .opening import arms_of, make_opening
from .page import limits_text
from .run_list import command_alone

if TYPE_CHECKING:
    from supple.reports.figures.style import Plot

PLACE = "hf:OWNER/NAME"


def model_card(content: Content, step: int, plot: "Plot | None") -> str:
    """Return the model card of one run, as Markdown below a header in YAML.

    Args:
        content: The report of the run.
        step: The step of its exported state.
        plot: A figure that lies beside the card.
    """
    run, datas = content.runs[0], [part.data for part in content.parts.values()]
    spec, what, arms = run.spec, [part.what for part in content.parts.values()], arms_of(datas)
    header = {
        "library_name": "supple",
        "pipeline_tag": content.report.task,
        "tags": ["supple", spec.kind, *(name for name in what if " " not in name)],
        "model-index": [{"name": content.what, "results": list(_results(content))}],
    }
    lines = ["---", *(f"{name}: {json.dumps(value)}" for name, value in header.items()), "---", ""]
    lines += [f"# {content.what}", "", " ".join(make_opening(datas, content.what, content.measures).compared)]
    lines += [f"These are the networks at step {step:,}.", "", "## Use", "", "```python"]
    lines += [content.report.use.replace("PLACE", PLACE), "```", ""]
    lines += ["`pip install 'supple[hub]'` installs what this needs. The path of this folder can be given instead."]
    if spec.resolved.plugins:
        lines += [f"It also needs {join_words(list(spec.resolved.plugins))}, which is not in this folder."]
    lines += ["Nothing in this folder is run as code.", "", "## Results", ""]
    if plot:
        lines += [f"![{plot.title}]({plot.name}.png)", "", plot.caption, ""]
    for table in content.tables:
        lines += [f"### {table.title}", "", as_markdown(table), table.words, ""]
    lines += [*content.lines, limits_text(datas, arms), "", "## Training", ""]
    lines += ["```sh", command_alone(run) or spec.command, "```", ""]
    lines += ["config.json has all settings. Versions: " + ", ".join(map(" ".join, spec.resolved.begun.items())) + "."]
    return "\n".join(lines) + "\n"


def _results(content: Content) -> Iterator[dict[str, Any]]:
    """Yield the final numbers in the form of the hub's header, for each benchmark."""
    for part in content.parts.values():
        if metrics := list(_metrics(part)):
            dataset = {"name": part.what, "type": _slug(part.what)}
            yield {"task": {"type": content.report.task}, "dataset": dataset, "metrics": metrics}


def _metrics(part: Description) -> Iterator[dict[str, Any]]:
    for measure in part.measures:
        mean = float(measure.spread(next(iter(measure.arms))).mean)
        if isfinite(mean):
            yield {"type": _slug(measure.name), "name": measure.name, "value": mean}


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text).strip("_")
