"""Modules of installed packages that register entries, found by their entry points."""

from .messages import one_line

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
        except Exception as error:
            package = f"{point.dist.name} {point.dist.version}" if point.dist else point.module
            raise BrokenPackage(
                f"the installed package {package} cannot be loaded: {one_line(error)} "
                f"(its entry point {point.name} = {point.value} of {group}): repair or uninstall it"
            ) from error
