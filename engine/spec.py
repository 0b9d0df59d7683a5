"""The specification of a run: everything that it depends on, as config.json holds it and as a worker needs it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from supple.registry import schema
from supple.registry.errors import RunError

from .kinds import Kind, find_kind
from .settings import RunSettings, Seeds
from .user_code import plugins
from .work import Work

TRACEBACK = "traceback.txt"  # in the folder of a run that an exception ended


@dataclass(frozen=True)
class Labels:
    """The place of a run among others.

    Attributes:
        study: The folder of its comparison inside a sweep; "" outside of sweeps.
        arm: The text of its arm; None for a run that is not part of a comparison, and for a trunk.
        variant: The values of those settings that vary within the comparison.
        leads: The measure that leads reports, declared before the run; "" for that of the kind.
    """

    study: str = ""
    arm: str | None = None
    variant: Mapping[str, Any] = field(default_factory=dict)
    leads: str = ""


@dataclass(frozen=True)
class Start:
    """The beginning of a run: step 0, or a checkpoint of another run.

    Attributes:
        step: The first step. It is above 0 for an arm of a fork.
        trunk: The name of the run whose checkpoint it continues; "" once that checkpoint is in its own folder.
    """

    step: int = 0
    trunk: str = ""


@dataclass(frozen=True)
class RunSpec:
    """One run: what is trained, with which settings and hooks, from where and to where.

    Attributes:
        kind: Name of the kind of run.
        settings: Its settings, with the hooks and the seed, or the seeds of a stack. `runs.prepare` replaces "auto".
        labels: Its place among other runs.
        start: Where it begins.
        stop: The step at which it stops as if killed, for trunks and for the tuning of arms. None: at its end.
        command: The command line with which it was asked for.
    """

    kind: str
    settings: RunSettings
    labels: Labels = Labels()
    start: Start = Start()
    stop: int | None = None
    command: str = ""

    @property
    def hooks(self) -> tuple[str, ...]:
        """The texts of its hooks, without those that the kind of run adds."""
        return self.settings.hook

    @property
    def seeds(self) -> Seeds:
        """The seed, or the seeds of a stack."""
        return self.settings.members

    @property
    def kind_row(self) -> Kind:
        """The row of its kind. Raises UnknownName if there is none."""
        return find_kind(self.kind)


def write_config(spec: RunSpec, work: Work) -> dict[str, Any]:
    """Return the contents of config.json: the specification, and what it results in on this machine.

    Args:
        spec: The specification. Its settings have no values such as "auto".
        work: The work that was built from it.
    """
    return {
        "algorithm": spec.kind,
        "seed": spec.seeds[0],
        "total_steps": work.tasks[-1].end,
        "start_step": spec.start.step,
        "stop_step": spec.stop,
        "hooks": [*work.hooks, *spec.hooks],
        "arm": spec.labels.arm,
        "command": spec.command,
        "data": work.sources,
        "settings": settings_to_json(spec.settings),
        "tasks": [asdict(task) for task in work.tasks],
        **plugins.config_entry(),
        **({"variant": dict(spec.labels.variant)} if spec.labels.variant else {}),
        **({"study": spec.labels.study} if spec.labels.study else {}),
        **({"leads": spec.labels.leads} if spec.labels.leads else {}),
    }


def read_spec(config: Mapping[str, Any], file: Path, more_plugins: bool = False) -> RunSpec:
    """Return the specification in the contents of a config.json.

    Args:
        config: The contents.
        file: The file, for error messages and to find plug-ins beside it.
        more_plugins: Allow plug-ins that the file does not name, for uses that do not train.

    Raises:
        UsageError: The loaded plug-ins are not those that the file names.
        RunError: This version of supple cannot read the file.
    """
    kind, settings = read_settings(config, file, more_plugins)
    labels = Labels(config.get("study", ""), config["arm"], config.get("variant", {}), config.get("leads", ""))
    return RunSpec(kind.name, settings, labels, Start(config["start_step"]), config["stop_step"], config["command"])


def settings_to_json(settings: RunSettings) -> dict[str, Any]:
    """Return the settings as JSON values. Paths are made absolute, so that a run can be resumed from any folder."""
    return {
        name: str(value.expanduser().absolute()) if isinstance(value, Path) else value
        for name, value in asdict(settings).items()
    }


def read_settings(config: Mapping[str, Any], file: Path, more_plugins: bool = False) -> tuple[Kind, RunSettings]:
    """Return the kind and the settings in the contents of a config.json or comparison.json.

    The arguments and exceptions are those of `read_spec`.
    """
    # code of a user that raised has been mended if it differs now
    plugins.require(config.get("plugins", {}), file.parent, more_plugins, mended=(file.parent / TRACEBACK).exists())
    try:
        kind = find_kind(config["algorithm"])
        settings: RunSettings = schema.convert(config["settings"], kind.settings_class(), "settings")
        return kind, settings
    except ValueError as error:
        raise RunError(f"{file} was edited or was written by another version of supple: {error}") from error
