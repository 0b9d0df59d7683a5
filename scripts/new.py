"""Write a template for your own intervention, metric or shift, with its test.

  supple new intervention my_method
  supple new metric my_metric --out methods

This writes my_method.py and test_my_method.py. The template works as written; its comments say what to change.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files as resources
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from string import Template
from typing import Annotated, Literal

import tyro

from supple.engine.user_code import plugins
from supple.registry import quoted
from supple.registry.errors import UsageError
from supple.scripts.cli.console import say
from supple.scripts.cli.options import parse_or_explain

USE = {
    "intervention": "--steps 16_384 --hook {name}@0.5",
    "metric": "--steps 16_384",
    "shift": "--cycles 2 --steps-per-task 8_192 --shift {name}",
}


@dataclass(kw_only=True)
class Options:
    what: Annotated[Literal["intervention", "metric", "shift"], tyro.conf.Positional]
    """Type of the plug-in."""
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """Name in hooks and lists and of the file. Letters, digits and _ are allowed."""
    out: Path = Path()
    """Folder for the two files."""


def main(args: Sequence[str]) -> None:
    options = parse_or_explain(Options, args, "supple new", __doc__)
    what, name = options.what, options.name
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) or iskeyword(name):
        raise UsageError(f"NAME must consist of letters, digits and _ and be importable in Python, got {name!r}")
    paths = [options.out / f"{name}.py", options.out / f"test_{name}.py"]
    if existing := [path for path in paths if path.exists()]:
        raise UsageError(f"{existing[0]} exists already and is left unchanged: choose another name or folder")
    if name in plugins.table(what):
        raise UsageError(f"there already is {'an' if what[0] in 'aeiou' else 'a'} {what} {name!r}: choose another name")
    if find_spec(name) is not None:
        raise UsageError(f"the file would hide the Python module {name!r}: choose another name")
    fields = {"name": name, "Name": "".join(part.capitalize() for part in name.split("_"))}
    templates = resources("supple.scripts") / "templates"
    texts = [(templates / f"{file}.txt").read_text(encoding="utf-8") for file in (what, f"test_{what}")]
    options.out.mkdir(parents=True, exist_ok=True)
    for path, text in zip(paths, texts, strict=True):
        path.write_text(Template(text).substitute(fields), encoding="utf-8")
    file, test = paths
    say(f"wrote {file} and {test}; next:", f"  pytest {quoted(test)}  (pip install pytest)")
    if what == "intervention":
        say(f"  supple check {quoted(file)}")
    use = USE[what].format(name=name)
    say(f"  supple train ppo --env cartpole {use} --plugin {quoted(file)} --out runs/{name}")
