"""The reference of the command line: a page for each command and each kind of run, made from their parsers."""

import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin
from unittest import mock

import tyro

from supple.engine.kinds import Kind, all_kinds, presets_of
from supple.engine.settings import GROUPS, group_of
from supple.scripts.main import COMMANDS

from . import pages
from .docstrings import first_sentence, inline, rest

KINDS = ("train", "compare")  # commands whose options depend on the kind of run
EXAMPLE = re.compile(r"\s*(supple|torchrun|python) ")


class _Asked(BaseException):
    """What a command asks its parser for, raised in the place of parsing."""

    def __init__(self, kind: Any, **options: Any) -> None:
        self.kind, self.options = kind, options


def parser(command: str, words: Sequence[str] = ()) -> tuple[Any, dict[str, Any]]:
    """Return the dataclass that a command reads its options into, and how it asks tyro for it."""

    def ask(kind: Any, **options: Any) -> None:
        raise _Asked(kind, **options)

    with mock.patch.object(tyro, "cli", ask):
        try:
            importlib.import_module(f"supple.scripts.{command}").main([*words, "--out"])
        except _Asked as asked:
            return asked.kind, asked.options
    raise LookupError(f"supple {command} {' '.join(words)} has no parser")


def options(kind: Any, how: dict[str, Any]) -> Iterator[tuple[str, str, tuple[str, str, str]]]:
    """Yield the options of a parser: the class and the name of the field, and the option, its values and its help."""
    how = {
        name: value for name, value in how.items() if name in ("prog", "description", "default", "registry", "config")
    }
    with mock.patch("warnings.warn"):
        actions = tyro.extras.get_parser(kind, **how)._actions
    owners = dict(_owners(kind))
    for action in actions:
        if "--help" in action.option_strings:
            continue
        name = (action.option_strings or [action.dest])[-1].lstrip("-").replace("-", "_")
        shown = action.option_strings[0] if action.option_strings else str(action.metavar)
        values = "" if not action.option_strings else _values(action)
        yield owners.get(name, ""), name, (shown, values, str(action.help or ""))


def _values(action: Any) -> str:
    """Return the values of an option as help shows them: its metavar, or its choices."""
    shown = re.sub("[{}]", "", str(action.metavar or "")).replace(",", "|").removeprefix("None|")
    return " ".join(shown.split())


def _owners(kind: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields of a dataclass, nested ones included, with the name of the class that declares each."""
    plain, arguments = get_origin(kind) or kind, get_args(kind)
    for base in reversed(plain.__mro__):
        yield from ((name, base.__qualname__) for name in inspect.get_annotations(base))
    for nested in arguments:
        if is_dataclass(nested) and isinstance(nested, type):
            yield from _owners(nested)


def write(out: pages.Pages) -> None:
    rows = []
    for command in COMMANDS:
        doc = importlib.import_module(f"supple.scripts.{command}").__doc__ or ""
        out.write(f"commands/{command}", _command(command, doc))
        rows.append((f":doc:`supple {command} <{command}>`", inline(_about(command, doc))))
    kinds = all_kinds()
    for kind in kinds.values():
        out.write(f"kinds/{kind.name}", _kind(kind))
    lines = [*pages.title("Commands"), "Every command of ``supple``, with its options and examples.", ""]
    lines += [*pages.table(("command", "what it does"), rows, "30 70"), *pages.toctree(COMMANDS, hidden=True)]
    out.write("commands/index", lines)
    about = "What ``supple train KIND`` and ``supple compare KIND`` train, and the settings of each kind."
    rows = [(f":doc:`{name} <{name}>`", inline(kind.about), inline(kind.unit)) for name, kind in kinds.items()]
    table = pages.table(("kind", "what it trains", "a step is counted in"), rows)
    out.write("kinds/index", [*pages.title("Kinds of runs"), about, "", *table, *pages.toctree(kinds, hidden=True)])


def _about(command: str, doc: str) -> str:
    """Return what a command does, in the words of its docstring or of `supple --help`."""
    known = COMMANDS[command] if isinstance(COMMANDS, dict) else ""
    words = known or first_sentence(doc).removeprefix(f"supple {command}: ")
    return words[:1].upper() + words[1:].rstrip(".") + "."


def _described(doc: str) -> list[str]:
    """Return a script's docstring, with its examples as console blocks."""
    text = re.sub(r"^supple \w+: (\w)", lambda start: start[1].upper(), inspect.cleandoc(doc))
    lines, found = text.splitlines(), list[str]()
    while lines:
        if EXAMPLE.match(lines[0]):
            block = [lines.pop(0)]
            while lines and (EXAMPLE.match(lines[0]) or block[-1].endswith("\\")):
                block.append(lines.pop(0))
            text = re.sub(
                r"^(?=supple |torchrun |python )", "$ ", inspect.cleandoc("\n".join(["", *block])), flags=re.M
            )
            found += ["", *pages.code(re.sub(r"(?<=\S) {3,}(?=\S)", "  # ", text), "console")]
        else:
            prose = [lines.pop(0)]
            while lines and not EXAMPLE.match(lines[0]):
                prose.append(lines.pop(0))
            found += rest("\n".join(prose))
    return found


def _table(found: list[tuple[str, str, str]]) -> list[str]:
    """Return options as a list of definitions, which is readable on a narrow screen."""
    lines = []
    for option, values, text in found:
        about, default = _parted(text)
        lines += [f"``{' '.join([option, *values.split()])}``", f"   {inline(about) or '–'}{default}", ""]
    return lines


def _parted(text: str) -> tuple[str, str]:
    """Return the help of an option and, in words, what tyro puts in brackets behind it: its default, or none."""
    found = re.fullmatch(r"(.*)\s*\((required|repeatable|optional|default: *(.*))\)", text.strip(), re.DOTALL)
    if not found:
        return text.strip(), ""
    about, word, value = found.groups()
    if word == "required":
        return about.strip(), " **Required.**"
    return about.strip(), f" Default: ``{value}``." if value and value != "None" and "`" not in value else ""


def _command(command: str, doc: str) -> list[str]:
    lines = [*pages.title(f"supple {command}"), *_described(doc)]
    if command in KINDS:
        kind, how = parser(command, _shortest(next(iter(all_kinds().values()))))
        shared = [option for owner, _, option in options(kind, how) if not owner.endswith("Settings")]
        names = ", ".join(f":doc:`{name} <../kinds/{name}>`" for name in all_kinds())
        more = f"The settings of the run follow, and depend on its kind: {names}."
        return [*lines, *pages.title("Options", "-"), *_table(shared), more]
    if command == "linear":
        kind, how = parser(command, ["figures"])
        heading = f"Options of {how['prog']}"
    else:
        (kind, how), heading = parser(command), "Options"
    return [*lines, *pages.title(heading, "-"), *_table([option for _, _, option in options(kind, how)])]


def _shortest(kind: Kind) -> list[str]:
    """Return the words that name a kind of run: with a benchmark, if it needs one."""
    return [kind.name, next(iter(presets_of(kind.name)))] if kind.benchmark else [kind.name]


def _kind(kind: Kind) -> list[str]:
    settings = kind.settings_class()
    benchmark = " BENCHMARK" if kind.benchmark else ""
    lines = [
        *pages.title(kind.name),
        inline(f"{kind.about[:1].upper()}{kind.about[1:]}. Its steps are {kind.unit}."),
        "",
    ]
    lines += pages.code(f"$ supple train {kind.name}{benchmark} --out DIR [OPTIONS]\n"
                        f"$ supple compare {kind.name}{benchmark} --out DIR [OPTIONS]", "console")  # fmt: skip
    what, how = parser("train", _shortest(kind))
    plain = settings()
    how["default"] = type(how["default"])(settings=plain, out=tyro.MISSING)
    names = {field.name for field in fields(settings)}
    found = [(group_of(settings, name), option) for _, name, option in options(what, how) if name in names]
    for group in GROUPS:
        if own := [option for of, option in found if of == group]:
            lines += [*pages.title(f"{group.capitalize()} options", "-"), *_table(own)]
    lines += pages.title("Options of every command that trains", "-")
    lines += [":doc:`supple train <../commands/train>` and :doc:`supple compare <../commands/compare>` list them.", ""]
    if presets := presets_of(kind.name):
        lines += pages.title("Benchmarks" if kind.benchmark else "Presets", "-")
        lines += pages.table(
            ("name", "what it is"), [(f"``{n}``", inline(p.about)) for n, p in presets.items()], "30 70"
        )
    return lines
