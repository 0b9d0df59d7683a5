"""Names of options in other libraries lead to those here."""

from dataclasses import fields

import pytest

from supple.engine.kinds import all_kinds
from supple.registry.errors import UsageError
from supple.scripts.cli.options import Options
from supple.scripts.cli.peers import PEERS, name_here
from supple.scripts.main import dispatch


@pytest.mark.parametrize("kind", all_kinds())
def test_what_an_option_is_called_here_exists_and_its_other_name_does_not(kind: str) -> None:
    settings = all_kinds()[kind].settings_class()
    known = {field.name.replace("_", "-") for field in (*fields(settings), *fields(Options))}
    for other in PEERS[kind]:
        here = name_here(kind, f"--{other}").split(" is called --")[1].split()[0]
        assert here in known
        assert other not in known


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("train ppo --lr 3e-4", "--lr is called --learning-rate here (`supple train ppo --help` lists all)"),
        ("train ppo --total_timesteps=1e6 --out x", "--total-timesteps is called --steps here"),
        ("compare ppo --batch-size 64", "--batch-size is called --minibatch-size here"),
        ("train linear --capture-video --out x", "--capture-video: linear trains no agent"),
        ("compare vision warm-start --capture-video --out x", "--capture-video: vision trains no agent"),
        ("train sac --policy-kwargs {}", "--policy-kwargs is called --activation"),
        ("train sac --polyak 0.995", "--polyak is called --tau (1 − polyak) here"),
    ],
)
def test_an_option_of_another_library_is_answered_with_the_one_here(line: str, answer: str) -> None:
    with pytest.raises(UsageError) as error:
        dispatch(line.split())
    assert str(error.value).startswith(answer)
