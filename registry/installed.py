"""Modules of installed packages that register entries, found by their entry points."""

from .messages import message_of
from .shown import shown
from .signals import is_interruption

_loaded: set[str] = set()


class BrokenPackage(RuntimeError):
    """An installed package whose entry point cannot be imported; the message is one line that names it."""


def load_group(group: str) -> None:
    """Import the modules that installed packages name as entry points of this group, once in a process.

    Raises BrokenPackage if one cannot be imported.
    """
    if group in _loaded:
        return
    _loaded.add(group)  # before, for a module may ask the registry that it is loaded for
    from importlib.metadata import entry_points  # takes a moment, which help texts do without

    for point in entry_points(group=group):
        try:
            point.load()
        except BaseException as error:
            if is_interruption(error):
                raise
            package = f"{point.dist.name} {point.dist.version}" if point.dist else point.module
            raise BrokenPackage(
                f"the installed package {package} cannot be loaded: {describe_import_error(error)} "
                f"(its entry point {point.name} = {point.value} of {group}): repair or uninstall it"
            ) from error


def describe_import_error(error: BaseException, file: str = "") -> str:
    """Return in one line why a module could not be imported, and where: in `file`, or in the last file executed."""
    import traceback  # as above

    if isinstance(error, SyntaxError):
        name, line, what = error.filename, error.lineno, error.msg
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if file in ("", frame.filename)]
        name, line = (frames[-1].filename, frames[-1].lineno) if frames else (None, None)
        what = message_of(error)
        if isinstance(error, SystemExit):
            what = "it ends the process instead of being imported"
        elif type(error) is not ValueError or not what:
            what = f"{shown(type(error).__name__)}: {what}".removesuffix(": ")
    place = [name] if name and name != file else []
    place += [f"line {line}"] if line else []
    return f"{', '.join(place)}: {what}" if place else what
