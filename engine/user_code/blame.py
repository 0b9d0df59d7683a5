"""What ends a run because of a plug-in, in one line with its name, what was called, and the step.

Code of plug-ins is called through `supple.registry.calling` wherever supple knows what it calls: interventions,
metrics, shifts, the making of activations. The rest, such as the forward pass of a plug-in's activation, or the work of
its kind of run, is recognised by the frames of the exception.
"""

import contextlib
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from ...registry import (
    OWN,
    BrokenPackage,
    CallSyntaxError,
    PluginFault,
    UnknownName,
    describe_raised,
    frames,
    is_interruption,
    module_of,
    one_line,
)
from ...registry.errors import Diverged, PluginFailed, RunError, UsageError, is_out_of_memory
from ..storage import files
from . import plugins

TRACEBACK = "traceback.txt"  # in the folder of a run: that of the last fault of a plug-in, for its author
TOLD = (RunError, UsageError, BrokenPackage, UnknownName, CallSyntaxError)  # which say themselves what is wrong


class blaming:
    """A block in which plug-ins may be at work. It raises PluginFailed for what is their fault.

    Diverged goes through it: a plug-in's kind of run raises it as the protocols ask.

    Args:
        step: Returns the step of the run; None if no run is being trained.
        folder: The folder of the run, where the traceback is written.
    """

    def __init__(self, step: Callable[[], int] | None = None, folder: Path | None = None) -> None:
        self.step, self.folder = step, folder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, (PluginFailed, Diverged)) or is_interruption(error):
            return
        line = self._describe(error)
        if not line:
            return
        if self.folder and self.folder.is_dir():
            with contextlib.suppress(OSError):
                files.replace(
                    self.folder / TRACEBACK, "".join(traceback.format_exception(error)).encode(errors="replace")
                )
                line += f"; its traceback is in {self.folder / TRACEBACK}"
        raise PluginFailed(line) from error

    def _describe(self, error: BaseException) -> str:
        """Return what to say of an exception, or "" if it is not the fault of a plug-in."""
        when = f" at step {self.step():,}" if self.step else ""
        if isinstance(error, PluginFault):
            return error.describe(when)
        names = {_module(plugin): plugin for plugin in plugins.loaded()}
        called: tuple[str, plugins.Plugin] | None = None
        for frame, _ in reversed(frames(error)):  # the innermost code that is supple's or a plug-in's is to blame
            if (name := module_of(frame)) in names:
                called = frame.f_code.co_qualname, names[name]  # in the end, what supple has called
            elif name == OWN:
                break
        if called:
            function, plugin = called
            what = f"{function} raised {describe_raised(error, plugin.name)}"
            return f"plug-in {plugin.name} ({plugins.describe(plugin)}){when}: {what}"
        if isinstance(error, (*TOLD, OSError)) or is_out_of_memory(error):
            return ""
        if isinstance(error, SystemExit) and not self.step:  # tyro's, after it has printed help
            return ""
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{one_line(error)} ({place.filename}, line {place.lineno})"
        if names:  # supple's own code stumbles over what a plug-in has returned or changed, or has an error itself
            return f"with plug-in {plugins.describe_all()}{when}: {what}"
        if self.step and not isinstance(error, Exception):  # SystemExit: nothing but its end ends a run
            return f"the run was ended{when} by {what}"
        return ""


def _module(plugin: plugins.Plugin) -> str:
    return plugin.name.removesuffix(".py").partition(".")[0]
