"""Writes the generated pages before Sphinx looks for pages."""

from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

from . import api, commands, methods, pages


def _generate(app: Sphinx, config: Config) -> None:
    out = pages.Pages(Path(app.srcdir))
    for part in (commands, api, methods):
        part.write(out)
    out.remove_others()


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", _generate)
    return {"parallel_read_safe": True}
