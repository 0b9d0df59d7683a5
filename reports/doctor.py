"""The findings of `supple doctor`: tables for the terminal, doctor.json, and a page."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from supple.engine.storage import files
from supple.metrics import Condition, Diagnosis
from supple.metrics.diagnosis import State

from . import summary
from .figures.style import Plot, new_figure, shorten, tidy
from .pages import exports
from .pages.page import template
from .tables.cells import Form, Pair, number
from .tables.table import Table, TableRows

if TYPE_CHECKING:
    from rich.console import Group

LIMITS = (
    "A network is compared with itself at initialisation, on one batch of inputs. The doctor measures whether it fits "
    "random targets, not whether it will learn the next task. The thresholds are rules of thumb from a few runs."
)
STATES: dict[State, str] = {
    "lost": "plasticity loss", "diverged": "not known: the fit diverged", "silent": "deterministic policy",
    "worn": "degraded layers, but no plasticity loss", "sound": "no sign of plasticity loss",
}  # fmt: skip
INITIAL, SHARE = ("", " at initialisation"), Form(decimals=0, scale=100.0, unit="%")
NUMBERS = ("weight_norm", "update_ratio", "gradient_norm", "small_gradient_fraction", "srank", "policy_churn")


@dataclass(frozen=True)
class Stage:
    """The diagnosis of a network at a step; None if there is only one state. `tried`: intervention → loss after it."""

    step: int | None
    diagnosis: Diagnosis
    tried: dict[str, float] = field(default_factory=dict)


@dataclass
class Findings:
    """The diagnoses of a run or model, the oldest first, and remarks on its networks at initialisation."""

    of: str
    stages: list[Stage] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def last(self) -> list[Stage]:
        """The newest stage of each network."""
        return list({stage.diagnosis.learner: stage for stage in self.stages}.values())

    @property
    def verdict(self) -> list[str]:
        """The findings as sentences."""
        return [
            sentence
            for stage in self.last
            for sentence in (*stage.diagnosis.verdict(), *self._history_sentences(stage), *_trial_sentences(stage))
        ]

    def _history_sentences(self, last: Stage) -> list[str]:
        """Return a sentence about the states at all checkpoints, if there are several."""
        stages = self._stages_of(last.diagnosis.learner)
        if len(stages) < 2:
            return []
        spans = [list(span) for _, span in groupby(stages, lambda stage: stage.diagnosis.state)]
        states = [f"{STATES[span[0].diagnosis.state]} {_steps_text(span)}" for span in spans]
        return [f"Over the checkpoints of '{last.diagnosis.learner}': {'; '.join(states)}."]

    def _stages_of(self, learner: str) -> list[Stage]:
        return [stage for stage in self.stages if stage.diagnosis.learner == learner]

    @property
    def tables(self) -> list[Table]:
        """Two tables per network: its fit and metrics, and its layers."""
        return [table for stage in self.last for table in (_metrics_table(stage), _layers_table(stage.diagnosis))]

    def printable(self) -> "Group":
        """Return the tables and sentences for the terminal."""
        return summary(self.tables, [*self.verdict, *self.remarks])

    def to_json(self) -> dict[str, object]:
        """Return everything that was measured. Values that were not measured are None."""
        stages = [
            {"step": stage.step, "state": stage.diagnosis.state, **asdict(stage.diagnosis), "tried": stage.tried}
            for stage in self.stages
        ]
        return {"of": self.of, "verdict": self.verdict, "remarks": self.remarks, "stages": stages}

    def plots(self) -> list[Plot]:
        """Return the figure of curves over the checkpoints, if there are several."""
        steps = sorted({stage.step for stage in self.stages if stage.step is not None})
        if len(steps) < 2:
            return []
        figure = new_figure(3.4)
        left, right = figure.subplots(1, 2)
        for name in dict.fromkeys(stage.diagnosis.learner for stage in self.stages):
            stages = self._stages_of(name)
            at = [stage.step for stage in stages]
            left.plot(at, [1 - stage.diagnosis.loss for stage in stages], marker="o", label=shorten(name))
            initial = [1 - stage.diagnosis.new_loss for stage in stages]
            left.plot(at, initial, "--", color="#7a7a7a", label=shorten(f"{name}, at initialisation"))
            dormant = [_share_dormant(stage.diagnosis.now) for stage in stages]
            right.plot(at, dormant, marker="o", label=shorten(name))
        tidy(left, "trainability")
        tidy(right, "share of dormant units")
        worst = min(1 - stage.diagnosis.loss for stage in self.stages)  # below 0 if training increased the loss
        for axes, lowest in ((left, min(worst, 0)), (right, 0)):
            axes.set_ylim(lowest - 0.02, 1.02)  # a shorter axis would exaggerate small differences
            axes.set_xlabel("step")
        left.legend(frameon=False)
        caption = (
            "Left: 1 − the error on random targets (1: perfect fit; 0: no fit). Right: the share of dormant units."
        )
        return [Plot("checkpoints", "Over the checkpoints", caption, figure)]


def write(findings: Findings, folder: Path) -> None:
    """Write index.html, doctor.json and the figure. The folder, new or empty, appears only when it is complete.

    Raises OSError if it has contents by now.
    """
    plots = findings.plots()
    page = template("layout.html").render(
        what="doctor",
        numbers="doctor.json",
        title=f"Does {Path(findings.of).name} still learn?",
        facts=[(STATES[stage.diagnosis.state], _label(stage)) for stage in findings.last],
        limits=LIMITS,
        verdict=findings.verdict,
        notes=findings.remarks,
        tables=findings.tables,
        plots=plots,
        path=Path(findings.of).name,
    )
    folder = folder.resolve()  # it may be a link to an empty folder
    if folder.exists():
        folder.rmdir()
    with files.atomic_folder(folder) as temporary:
        exports.write(temporary, findings.tables, plots)
        exports.put_json(temporary / "doctor.json", findings.to_json())
        exports.put(temporary / "index.html", page)


def _steps_text(span: Sequence[Stage]) -> str:
    first, last = span[0].step, span[-1].step
    return f"at step {first:,}" if first == last else f"from step {first:,} to {last:,}"


def _label(stage: Stage) -> str:
    return stage.diagnosis.learner + ("" if stage.step is None else f", step {stage.step:,}")


def _trial_sentences(stage: Stage) -> list[str]:
    """Return one sentence about each intervention that was tried."""
    diagnosis = stage.diagnosis
    before, new = number(diagnosis.loss, 2), number(diagnosis.new_loss, 2)
    return [
        f"In a trial, {text} changed the error of '{diagnosis.learner}' on random targets from {before} to "
        f"{number(loss, 2)} of their variance (at initialisation {new})."
        for text, loss in stage.tried.items()
    ]


def _metrics_table(stage: Stage) -> Table:
    diagnosis = stage.diagnosis
    now, new = diagnosis.now, diagnosis.new
    rows: TableRows = [["error on random targets", diagnosis.loss, diagnosis.new_loss]]
    known = [name for name in NUMBERS if name in now.numbers]
    rows += [[name.replace("_", " "), now.numbers.get(name), new.numbers.get(name)] for name in known]
    if now.entropy is not None:
        rows.append(["entropy of the policy (maximum: 1)", now.entropy, new.entropy])
    rows += [[f"norm of {name}", norm, new.norms[name]] for name, norm in now.norms.items()]
    return Table(_label(stage), ["metric", "now", "at initialisation"], rows)


def _layers_table(diagnosis: Diagnosis) -> Table:
    rows: TableRows = [
        [
            now.name,
            now.count,
            Pair(now.dormant, new.dormant, INITIAL, "{} ({})", SHARE),
            Pair(now.saturated, new.saturated, INITIAL, "{} ({})", SHARE),
            Pair(now.effective_rank, new.effective_rank, INITIAL, "{} ({})"),
        ]
        for now, new in zip(diagnosis.now.units, diagnosis.new.units, strict=True)
    ]
    header = ["layer", "units", "dormant", "saturated", "effective rank"]  # these fit into 80 columns
    words = (
        "Dormant: share of units whose output is always 0. Saturated: share of outputs with |φ′| < 0.001. Effective "
        "rank: that of the outputs. In parentheses: the values at initialisation."
    )
    return Table(f"{diagnosis.learner}: hidden units, now (at initialisation)", header, rows, words, turns=False)


def _share_dormant(condition: Condition) -> float:
    layers = condition.units
    return sum(layer.dormant * layer.count for layer in layers) / max(1, sum(layer.count for layer in layers))
