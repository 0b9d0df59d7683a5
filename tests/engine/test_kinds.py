"""The registry of kinds: rows that are whole, presets that belong to them, kinds of one's own."""

from dataclasses import fields

import pytest

from supple.engine.forks import Forks
from supple.engine.kinds import all_kinds, find_kind, presets_of
from supple.engine.settings import RunSettings
from supple.reports.studies.content import Report, report_of
from supple.scripts.main import dispatch

KINDS = {"ppo", "dqn", "sac", "vision", "pretrain", "sft", "clip", "continual", "linear"}


def test_every_kind_of_run_has_a_row() -> None:
    assert set(all_kinds()) == KINDS


@pytest.mark.parametrize("name", sorted(KINDS))
def test_all_that_a_row_names_is_there(name: str) -> None:
    kind = find_kind(name)
    assert issubclass(kind.settings_class(), RunSettings)
    assert callable(kind.builder())
    assert isinstance(kind.forks(), Forks)
    assert isinstance(report_of(kind), Report)
    assert kind.unit in ("updates", "environment steps")


@pytest.mark.parametrize("name", presets_of())
def test_presets_are_settings_of_their_kind(name: str) -> None:
    preset = presets_of()[name]
    known = {field.name for field in fields(find_kind(preset.kind).settings_class())}
    assert {*preset.settings, *preset.vary} <= known
    assert preset.seeds
    assert all(isinstance(seed, int) for seed in preset.seeds)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(KINDS))
def test_a_period_says_its_unit_in_its_help_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    kind = find_kind(name)
    with pytest.raises(SystemExit):
        dispatch(["train", name, *list(presets_of(name))[: kind.benchmark], "--help"])
    words = " ".join(capsys.readouterr().out.replace("│", " ").split()).lower()
    for option in ("--checkpoint-every", "--measure-every", "--eval-every"):
        assert kind.unit in words.split(option, 1)[1].split("(default")[0], option
