"""The specification of a run, which config.json holds: everything that the run depends on, as a worker needs it.

msgspec writes and reads the record. Its errors name the entry and both types: "Expected `int`, got `str` - at
`$.settings.seed`".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from supple.registry.errors import RunError

from .kinds import Kind, all_kinds, as_json, find_kind, require_setting
from .settings import RunSettings, Seeds
from .storage import signed_json, versions
from .user_code import plugins

TRACEBACK = "traceback.txt"  # in the folder of a run that an exception ended
FILE = "config.json"
T = TypeVar("T")


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
class Resolved:
    """The outcome of a specification on the machine that began the run. Everything is empty before.

    Attributes:
        hooks: The texts of all hooks, those of the kind of run first.
        tasks: The fields of each task: `index`, `start`, `end`, `name` and those of the kind.
        data: Descriptions of the data and the model by name.
        planned: The steps to which fractions in schedules refer, also after the run was extended.
        plugins: The SHA-256 sums of the plug-ins by name.
        versions: The versions under which the run was begun, and then those under which it was continued, if others.
        identity: The mark of its checkpoints, a SHA-256 sum over everything on which their state depends.
    """

    hooks: tuple[str, ...] = ()
    tasks: tuple[Mapping[str, Any], ...] = ()
    data: Mapping[str, str] = field(default_factory=dict)
    planned: int = 0
    plugins: Mapping[str, str] = field(default_factory=dict)
    versions: tuple[Mapping[str, str], ...] = ()
    identity: str = ""

    @property
    def begun(self) -> Mapping[str, str]:
        """The versions under which the run was begun."""
        return self.versions[0] if self.versions else {}


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
        resolved: What this results in, for a run that has a folder.
    """

    kind: str
    settings: RunSettings
    labels: Labels = Labels()
    start: Start = Start()
    stop: int | None = None
    command: str = ""
    resolved: Resolved = Resolved()

    @property
    def seeds(self) -> Seeds:
        """The seed, or the seeds of a stack."""
        return self.settings.members

    @property
    def kind_row(self) -> Kind:
        """The row of its kind. Raises UnknownName if there is none."""
        return find_kind(self.kind)

    @property
    def total_steps(self) -> int:
        """The planned steps. The run has a folder."""
        return int(self.resolved.tasks[-1]["end"])

    @property
    def end(self) -> int:
        """The step at which the run ends or is stopped. The run has a folder."""
        return self.total_steps if self.stop is None else self.stop

    def require_plugins(self, path: Path, more: bool = False) -> None:
        """Raise UsageError unless the plug-ins are those with which the run in `path` was started (`plugins.require`).

        Code of a user that raised an exception has been mended if it differs now.
        """
        plugins.require(self.resolved.plugins, path, more, mended=(path / TRACEBACK).exists())


def read_spec(path: Path) -> RunSpec:
    """Return the specification of the run in a folder.

    Raises:
        UsageError: There is no run, or another version of supple wrote it.
        RunError: The file is damaged or was changed.
    """
    file = path / FILE
    return from_json(RunSpec, signed_json.read_json(file, f"{path} is not a run directory"), file)


def start_run(path: Path, spec: RunSpec, *beside: str) -> None:
    """Make the folder of a run. Raises UsageError if it has contents other than those named in `beside`."""
    signed_json.start_folder(path, FILE, to_json(spec), *beside)


def write_spec(path: Path, spec: RunSpec) -> None:
    """Write the specification of the run in a folder, replacing the present one."""
    signed_json.write_json(path / FILE, to_json(spec))


def note_versions(path: Path, spec: RunSpec) -> None:
    """Add the versions here to a run's record, if it has only been trained under others.

    The sums of the plug-ins here replace those that were recorded, which stay among the versions.
    """
    own, sums = spec.resolved, plugins.sums()
    here = versions.here(sums)
    same = any(all(known.get(name, value) == value for name, value in here.items()) for known in own.versions)
    if not same or own.plugins != sums:
        write_spec(path, replace(spec, resolved=replace(own, plugins=sums, versions=(*own.versions, here))))


def to_json(value: Any) -> Any:
    """Return a record as JSON values. Paths are made absolute, so that a run can be resumed from any folder."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=_plain))


def _plain(value: Any) -> Any:
    """Return the JSON value of a path, a range, or a number of NumPy. Raises TypeError for other types."""
    if isinstance(value, Path):
        return str(value.expanduser().absolute())
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Real | range):
        return as_json(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def from_json(record: Callable[..., T], value: Mapping[str, Any], file: Path) -> T:
    """Return a record with a `kind` and its `settings` from JSON values.

    Raises:
        UsageError: The kind is that of a plug-in that has not been loaded.
        RunError: The entries do not fit.
    """
    if value.get("kind") not in all_kinds():
        plugins.require(value.get("resolved", value).get("plugins", {}), file.parent)
    try:
        kind, given = find_kind(value["kind"]), value["settings"]
        for name in given:
            require_setting(kind, name)
        # replaced by itself, since msgspec sets no attribute for a default: of settings that the run did not know
        settings = replace(msgspec.convert(given, kind.settings_class(), dec_hook=lambda wanted, text: wanted(text)))
        own: Any = msgspec.convert({**value, "settings": {}}, record)
        return replace(own, settings=settings)
    except (KeyError, ValueError) as error:
        raise unreadable(file, error) from error


def unreadable(file: Path, error: Exception) -> RunError:
    """Return the exception to raise for a record whose entries do not fit."""
    return RunError(f"{file} was edited or was written by another version of supple: {error}")
