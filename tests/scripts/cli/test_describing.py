"""What help says of options: the group of each, and one default."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import ClassVar

import pytest

from supple.engine.kinds import all_kinds, presets_of
from supple.engine.settings import GROUPS, Groups, RunSettings, group_of
from supple.scripts.cli.console import parse
from supple.scripts.main import COMMANDS, dispatch

BOX = re.compile(r"^ (\S.*?) *\n -{20,} *\n((?:  .*\n)*)", re.MULTILINE)  # where boxes are not drawn, as here
KINDS = [
    [command, kind.name, *list(presets_of(kind.name))[: kind.benchmark]]
    for command in ("train", "compare")
    for kind in all_kinds().values()
]
OTHERS = [[command] for command in COMMANDS if command not in ("train", "compare", "linear")]


def boxes(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, list[str]]:
    """Return what `--help` says of each option in a line, by the title of the box."""
    with contextlib.suppress(SystemExit):
        dispatch([*words, "--help"])
    found = {}
    for title, rows in BOX.findall(capsys.readouterr().out):
        found[title] = [" ".join(part.split()) for part in re.split(r"^  (?=\S)", rows, flags=re.MULTILINE)[1:]]
    return found


def names(options: list[str]) -> list[str]:
    return [option.split()[0] for option in options]


def test_the_options_of_a_kind_come_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    found = boxes(capsys, "train", "ppo")
    groups = [f"{name} options" for name in ("environment", "learning", "network", "measuring", "speed", "output")]
    assert list(found) == ["options", *groups]
    assert names(found["options"]) == [
        "-h,",
        "--out",
        "--preset",
        "--plugin",
        "--capture-video",
        "--hook",
        "--seed",
        "--seeds",
    ]
    for group, option in {
        "environment": "--steps", "learning": "--gamma", "network": "--hidden", "measuring": "--eval-every",
        "speed": "--compile", "output": "--keep-best",
    }.items():  # fmt: skip
        assert option in names(found[f"{group} options"])
    assert max(map(len, found.values())) <= 25


@pytest.mark.parametrize("words", KINDS + OTHERS, ids=" ".join)
def test_every_option_has_help_that_names_one_default(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    options = [option for box in boxes(capsys, *words).values() for option in box]
    assert options
    for option in options:
        assert len(option.split()) > 4, option  # more than its name, its type and its default
        assert len(re.findall("default(?= there)?: ", option)) <= 1, option
        assert not re.search(r"default: (None)?\)", option), option


def test_the_default_of_an_option_without_a_value_is_the_one_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    found = boxes(capsys, "train", "ppo")["learning options"]
    assert next(option for option in found if option.startswith("--target-lambda")).endswith("(default: gae_lambda).")


def test_a_value_of_a_preset_replaces_the_default_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    found = boxes(capsys, "train", "vision", "permuted-mnist")["task options"]
    option = next(option for option in found if option.startswith("--images INT"))
    assert "default: all" not in option
    assert option.endswith("(default: 10000)")


@dataclass(kw_only=True)
class OwnSettings(RunSettings):
    strength: float = 1.0
    """Of a plug-in."""
    groups: ClassVar[Groups] = {"own": ("strength",)}


def test_a_plug_in_may_have_a_group_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(OwnSettings, ["--strength", "2", "--measure-every", "5"], "x", "") == OwnSettings(
        strength=2.0, measure_every=5
    )
    with contextlib.suppress(SystemExit):
        parse(OwnSettings, ["--help"], "x", "")
    assert re.search(r"^ own options *\n[ -]*\n  --strength FLOAT", capsys.readouterr().out, re.MULTILINE)


def declared() -> Iterator[tuple[str, type, str, str]]:
    for kind in all_kinds().values():
        for base in kind.settings_class().__mro__:
            for group, settings in vars(base).get("groups", {}).items():
                yield from ((kind.name, kind.settings_class(), group, name) for name in settings)


def test_groups_name_settings_that_exist_once() -> None:
    for kind, settings, group, name in declared():
        assert group in GROUPS
        assert name in {field.name for field in fields(settings)}, f"{kind} has no setting {name}"
    found = [(kind, name) for kind, _, _, name in declared()]
    assert len(found) == len(set(found))


def test_a_setting_without_a_group_is_about_learning() -> None:
    assert group_of(all_kinds()["sac"].settings_class(), "temperature") == "learning"
