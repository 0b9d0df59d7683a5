"""The reference of what has a name: interventions, activations, metrics, shifts and suites, from their registries."""

import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from supple.envs import shifts
from supple.experiments.sweeps.suites import about as about_suite
from supple.experiments.sweeps.suites import suites
from supple.interventions import Intervention, activation, activation_registry, interventions, learner_for, make
from supple.interventions import properties as properties_of
from supple.metrics import METRICS, Metric

from . import pages
from .docstrings import first_sentence, inline, rest
from .equations import latex

WIDE = 60  # characters: longer lines of several equations are shown one below the other
ARXIV = re.compile(r"arXiv[: ]+(\d{4}\.\d{4,5})")
MOMENTS = {
    "apply": "when its schedule fires",
    "penalty": "in every training loss",
    "before_update": "before every optimizer step",
    "after_update": "after every optimizer step",
    "finish_task": "at the end of every task",
}
NEEDS = {
    "weights": "the weights",
    "pairs": "pairs of consecutive linear layers",
    "batch": "a training batch",
    "units": "the outputs of hidden units on recent inputs",
    "slopes": "the derivatives of the activations on recent inputs",
    "samples": "the gradients of single samples",
    "hidden": "the gradients of hidden layers on a training batch",
    "marked": "the parameters at the last measurement",
    "policy": "a policy, and the parameters at the last measurement",
    "values": "action values, and the parameters at the last measurement",
}


def write(out: pages.Pages) -> None:
    _write_interventions(out)
    about = "Activations for ``--activation`` and for :doc:`swap <interventions/swap>`."
    more = "What the columns of the properties mean: :doc:`../activations`."
    _write_sections(out, "activations", f"{about} {more}", activation_registry.entries, _activation)
    about = "Metrics that a run measures (``--measure-every``) and that schedules can use (``@when:``)."
    _write_sections(out, "metrics", f"{about} Formulas: :doc:`../metrics`.", METRICS, _metric)
    about = "Shifts for ``--shift``, which change an environment from one task to the next."
    _write_sections(out, "shifts", f"{about} How they are used: :doc:`../worlds`.", shifts.entries, _shift)
    _write_suites(out)


def equation(lines: list[str]) -> list[str]:
    """Return a block of a docstring as equations, or as it is written if a line has an unknown symbol."""
    parts = [part for line in lines for part in (re.split(" {2,}", line) if len(line) > WIDE else [line])]
    found = [latex(part) for part in parts if part.strip()]
    if None in found:
        return pages.code("\n".join(lines))
    return [part for text in found for part in (".. math::", "", f"   {text}", "")]


def parameters(factory: Callable[..., Any]) -> list[str]:
    """Return a table of the parameters of a factory."""
    found = [p for p in inspect.signature(factory).parameters.values() if p.name != "self"]
    if not found:
        return ["No parameters.", ""]
    return pages.table(("parameter", "type", "default"), [
        (f"``{p.name}``", _type(p.annotation), "" if p.default is p.empty else f"``{p.default!r}``") for p in found
    ])  # fmt: skip


def _type(annotation: Any) -> str:
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return "" if annotation is inspect.Parameter.empty else "``" + re.sub(r"\b([A-Za-z_]+\.)+", "", text) + "``"


def papers(*docs: str | None) -> str:
    """Return links to the papers whose arXiv ids are in docstrings."""
    ids = dict.fromkeys(found for doc in docs for found in ARXIV.findall(doc or ""))
    return ", ".join(f"`arXiv:{each} <https://arxiv.org/abs/{each}>`__" for each in ids)


def _facts(found: Iterable[tuple[str, str]]) -> list[str]:
    return [*(f":{name}: {text}" for name, text in found if text), ""]


def _write_sections(
    out: pages.Pages, topic: str, about: str, entries: Any, section: Callable[[str, Any], list[str]]
) -> None:
    """Write one page with a section, and an anchor such as `shift-offset`, for each entry."""
    lines = [*pages.title(topic.capitalize()), about, ""]
    names = sorted(entries)
    lines += pages.table(("name", "what it is"), [
        (f":ref:`{name} <{topic[:-1]}-{name}>`", inline(_about(entries[name]))) for name in names
    ], "30 70")  # fmt: skip
    for name in names:
        lines += [f".. _{topic[:-1]}-{name}:", "", *pages.title(name, "-"), *section(name, entries[name]), ""]
    out.write(topic, lines)


def _about(entry: Any) -> str:
    return entry.about if isinstance(entry, Metric) else first_sentence(entry.__doc__)


def _activation(name: str, factory: Any) -> list[str]:
    p = properties_of(activation(name))
    marks = {
        **{"continuously differentiable": p.smooth, "monotone": p.monotone, "self-normalizing": p.self_normalizing},
        **{"dead zone": p.dead_zone, "gradient for negative inputs": p.passes_negative, "adaptive": p.adaptive},
        **{"curved": p.curved},
    }
    facts = (
        ("Properties", ", ".join(word for word, held in marks.items() if held)),
        ("Numbers", f"derivative floor {p.floor:.3f}, mean negative slope {p.negative_slope:.3f}, "
                    f"dead band {p.dead_band:.1%}, saturates: {inline(str(p.saturates))}"),
        ("Papers", papers(factory.__doc__)),
        ("Code", pages.source_link(factory)),
    )  # fmt: skip
    return [*rest(factory.__doc__ or "", equation), *parameters(factory), *_facts(facts)]


def _metric(name: str, metric: Metric) -> list[str]:
    facts = (
        ("Computed from", NEEDS.get(metric.needs, metric.needs)),
        ("Of a stack", f"the {metric.pool} over its members"),
        ("Cost", "high: it is only measured on request" if metric.costly else ""),
    )
    return [inline(f"{metric.about[:1].upper()}{metric.about[1:]}."), "", *_facts(facts)]


def _shift(name: str, shift: Any) -> list[str]:
    module = sys.modules[shift.__module__].__doc__ or ""
    facts = (("Papers", papers(module, shift.__doc__)), ("Code", pages.source_link(shift)))
    return [*rest(shift.__doc__ or ""), *parameters(shift), *rest(module, equation), *_facts(facts)]


def _write_interventions(out: pages.Pages) -> None:
    names = interventions.names()
    for name in names:
        out.write(f"interventions/{name}", _intervention(name, interventions.get(name)))
    about = "Everything that ``--hook`` and ``--arm`` accept. Schedules and reset contracts: :doc:`../../hooks`."
    lines = [*pages.title("Interventions"), about, ""]
    found = [(f":doc:`{name} <{name}>`", inline(first_sentence(interventions.get(name).__doc__))) for name in names]
    lines += [*pages.table(("name", "what it does"), found, "30 70"), *pages.toctree(names, hidden=True)]
    out.write("interventions/index", lines)


def _intervention(name: str, factory: type[Intervention]) -> list[str]:
    module = sys.modules[factory.__module__].__doc__ or ""
    moments = [
        words for moment, words in MOMENTS.items() if getattr(factory, moment) is not getattr(Intervention, moment)
    ]
    cost = re.search(r"\bCost\b[^:.]*: (.+?)(?:\n\n|$)", inspect.cleandoc(module), re.DOTALL)
    facts = (
        ("Acts", ", ".join(moments)),
        ("Cost", inline(" ".join(cost[1].split())) if cost else ""),
        ("Papers", papers(module, factory.__doc__)),
        ("Code", pages.source_link(factory)),
    )
    lines = [
        f".. _intervention-{name}:",
        "",
        *pages.title(name),
        *rest(factory.__doc__ or "", equation),
        *_facts(facts),
    ]
    lines += [
        *pages.title("Parameters", "-"),
        *parameters(factory),
        *pages.title("Method", "-"),
        *rest(module, equation),
    ]
    if contract := _contract(name):
        lines += [*pages.title("Reset contract", "-"), "On a small network with Adam and default parameters:", ""]
        lines += pages.table(("part", "what happens to it"), [(inline(k), inline(v)) for k, v in contract.items()])
    return lines


def _contract(name: str) -> dict[str, str]:
    """Return the reset contract on a small network, or nothing if the intervention needs another kind of network."""
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    try:
        intervention = make(name)
        learner = learner_for(module, torch.optim.Adam(module.parameters()))
        intervention.attach(learner)
        return intervention.contract(learner)
    except (ValueError, RuntimeError):
        return {}


def _write_suites(out: pages.Pages) -> None:
    found = suites()
    for name, file in found.items():
        text = file.read_text(encoding="utf-8")
        head = re.match(r"((?:#.*\n)*)", text)
        prose = re.sub(r"^# ?", "", head[1] if head else "", flags=re.M)
        about = tomllib.loads(text)["about"]
        facts = (("Source", inline(about["source"])), ("Time", inline(about_suite(name).rpartition("; ")[2])))
        lines = [*pages.title(name), inline(about["title"]) + ".", "", *_facts(facts)]
        lines += pages.code(f"$ supple sweep {name} --scale small --out runs/{name}", "console")
        out.write(
            f"suites/{name}", [*lines, *rest(prose), *pages.code(text[len(head[1]) if head else 0 :].strip(), "toml")]
        )
    about = "Sweep files that come with supple. ``supple sweep NAME`` runs one: :doc:`../../../howto/sweeps`."
    lines = [*pages.title("Suites"), about, ""]
    lines += pages.table(
        ("name", "what it is"), [(f":doc:`{n} <{n}>`", inline(about_suite(n))) for n in found], "30 70"
    )
    out.write("suites/index", [*lines, *pages.toctree(found, hidden=True)])
