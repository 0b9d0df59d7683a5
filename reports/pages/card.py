"""The model card of an exported run: README.md, whose header the Hugging Face hub reads."""

import json
from collections.abc import Iterator
from itertools import chain
from math import isfinite
from typing import Any

from supple.reports.figures.style import Plot, slug
from supple.reports.studies.content import Content
from supple.reports.tables.table import join_words

from .exports import as_markdown
from .opening import arms_of, make_opening
from .page import limits_text
from .run_list import command_alone


def model_card(content: Content, step: int, plot: Plot | None) -> str:
    """Return the model card of one run, as Markdown below a header in YAML.

    Args:
        content: The report of the run.
        step: The step of its exported state.
        plot: A figure that lies beside the card.
    """
    run, datas = content.runs[0], [part.data for part in content.parts.values()]
    spec, opening = run.spec, make_opening(datas, content.what, content.measures)
    header = {
        "library_name": "supple",
        "pipeline_tag": content.report.task,
        "tags": ["supple", spec.kind, *(part.what for part in content.parts.values() if " " not in part.what)],
        "model-index": [{"name": content.what, "results": list(_results(content))}],
    }
    plugins = join_words(list(spec.resolved.plugins))
    sections = [
        "\n".join(["---", *(f"{name}: {json.dumps(value)}" for name, value in header.items()), "---"]),
        f"# {content.what}",
        " ".join([*opening.compared, f"The networks are those of step {step:,}."]),
        f"## Use\n\n```python\n{content.report.use.replace('PLACE', 'hf:OWNER/NAME')}\n```",
        "`pip install 'supple[hub]'` installs what this needs. The path of this folder can be given instead. Nothing "
        "in it is run as code.",
        f"It also needs the plug-ins {plugins}, which are not in this folder." if plugins else "",
        "## Results",
        f"![{plot.title}]({plot.name}.png)\n\n{plot.caption}" if plot else "",
        *chain.from_iterable((f"### {table.title}", as_markdown(table), table.words) for table in content.tables),
        *content.lines,
        limits_text(datas, arms_of(datas)),
        f"## Training\n\n```sh\n{command_alone(run) or spec.command}\n```",
        f"config.json has all settings. Versions: {', '.join(map(' '.join, spec.resolved.begun.items()))}.",
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def _results(content: Content) -> Iterator[dict[str, Any]]:
    """Yield the final numbers in the form of the hub's header, for each benchmark."""
    for part in content.parts.values():
        means = {measure.name: float(measure.spread(next(iter(measure.arms))).mean) for measure in part.measures}
        if known := {name: mean for name, mean in means.items() if isfinite(mean)}:
            yield {
                "task": {"type": content.report.task},
                "dataset": {"name": part.what, "type": slug(part.what)},
                "metrics": [{"type": slug(name), "name": name, "value": mean} for name, mean in known.items()],
            }
