"""Writes the generated pages before Sphinx looks for pages."""

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

from . import api, claims, commands, methods, pages


def _generate(app: Sphinx, config: Config) -> None:
    out = pages.Pages(Path(app.srcdir))
    for part in (commands, api, methods, claims):
        part.write(out)
    out.remove_others()


def _without_source(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Leave out the links to view and edit the source of a generated page, which the repository does not have."""
    if page.startswith(pages.FOLDER):
        context["theme_source_repository"] = ""


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", _generate)
    app.connect("html-page-context", _without_source)
    return {"parallel_read_safe": True}
