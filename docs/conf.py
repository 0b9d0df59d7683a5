"""The documentation site: `make docs` builds it into docs/_build/html, without a network."""

import os
import sys
from importlib.metadata import version as installed
from pathlib import Path
from pydoc import locate

sys.path.insert(0, str(Path(__file__).parent))
from extensions.pages import ADDRESS, address_of

os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # so that notebooks find `supple`

project = "supple"
copyright = "supple's authors, MIT licence"
author = "supple's authors"
release = version = installed("supple")

# Docstrings are plain text with single backticks, which neither reStructuredText nor MyST reads as it is meant. So
# extensions.docstrings converts them, Google's sections included, to reStructuredText that is valid for every input.
extensions = [
    *("sphinx.ext.autodoc", "sphinx.ext.intersphinx", "sphinx.ext.linkcode", "myst_nb", "sphinx_copybutton"),
    *("extensions.docstrings", "extensions.api", "extensions.generate", "extensions.mathml"),
]
source_suffix = {".md": "myst-nb", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "results/*/**"]
highlight_language = "none"
nitpicky = True
smartquotes = False  # -- stands before options
# A base class of Gymnasium's wrappers that its documentation leaves out.
nitpick_ignore = [("py:class", "gymnasium.utils.record_constructor.RecordConstructorArgs")]
math_renderer = html_math_renderer = "mathml"

autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # PyTorch's and Gymnasium's own are in their documentation
autoclass_content = "both"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
maximum_signature_line_length = 90

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 4

# The inventories hold the names that supple's signatures refer to; docs/inventories/make.py writes them.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", "inventories/python.inv"),
    "numpy": ("https://numpy.org/doc/stable", "inventories/numpy.inv"),
    "torch": ("https://docs.pytorch.org/docs/stable", "inventories/torch.inv"),
    "gymnasium": ("https://gymnasium.farama.org", "inventories/gymnasium.inv"),
}

nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parent / "_build" / "notebooks")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

html_theme = "furo"
html_title = "supple"
html_static_path = ["static"]
html_css_files = ["supple.css"]
html_copy_source = html_show_sourcelink = False
html_theme_options = {}
if ADDRESS:
    html_theme_options = {"source_repository": ADDRESS, "source_branch": "main", "source_directory": "docs/"}
copybutton_prompt_text = "$ "


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """Return the address of the source of a documented object, if the repository has an address."""
    return address_of(locate(f"{info['module']}.{info['fullname']}")) if ADDRESS and domain == "py" else None
