"""The networks of a comparison, which are built to check what will be trained with them, and dropped."""

from contextlib import AbstractContextManager

from supple.engine.kinds import Kind
from supple.engine.loop import Warn
from supple.engine.runs import attach_hooks, build
from supple.engine.settings import RunSettings
from supple.engine.work import Task, Work


class Networks(AbstractContextManager["Networks"]):
    """Builds the networks of runs of one kind, to check their tasks and their hooks.

    Settings that do not change the networks (`RunSettings.same_network`) share one, until hooks are attached to it.
    Only the last one is kept.
    """

    def __init__(self, kind: Kind, warn: Warn) -> None:
        self.kind, self.warn = kind, warn
        self._work: Work | None = None
        self._keys: set[str] = set()  # of the settings whose networks these are
        self._tasks: dict[str, tuple[Task, ...]] = {}
        self._checked: set[tuple[str, tuple[str, ...], int]] = set()  # networks, hooks, first step

    def build(self, settings: RunSettings) -> Work:
        """Return the work for these settings, or for others that result in the same networks.

        Raises UsageError if the settings cannot work.
        """
        settings.check()
        if self._work is None or _identify(settings) not in self._keys:
            self.close()
            self._work = build(self.kind, settings, self.warn)
            self._keys = {_identify(settings), _identify(self._work.settings)}  # with and without "auto"
            self._tasks |= dict.fromkeys(self._keys, self._work.tasks)
        return self._work

    def tasks(self, settings: RunSettings) -> tuple[Task, ...]:
        """Return the tasks of runs with these settings."""
        known = self._tasks.get(_identify(settings))
        return self.build(settings).tasks if known is None else known

    def ends(self, settings: RunSettings) -> list[int]:
        """Return the steps at which the tasks of these runs end. In other environments, they may be the same."""
        return [task.end for task in self.tasks(settings)]

    def check_hooks(self, settings: RunSettings, start: int) -> None:
        """Raise UsageError if the hooks cannot be used in a run with these settings that begins at step `start`."""
        settings.check()
        asked = (_identify(settings), settings.hook, start)
        if asked not in self._checked:
            attach_hooks(self.build(settings), settings.hook, start)
            self.close()  # these networks are no longer as they are at the beginning of a run
            self._checked.add(asked)

    def close(self) -> None:
        """Release the last networks."""
        if self._work:
            self._work.close()
        self._work = None

    def __exit__(self, *_: object) -> None:
        self.close()


def _identify(settings: RunSettings) -> str:
    """Return a text that is the same for settings with the same networks."""
    return repr({name: value for name, value in vars(settings).items() if name not in ("hook", *settings.same_network)})
