"""Every metric and every intervention on every network of the zoo: a few minutes. tests/zoo has the quick part."""

from pathlib import Path

import pytest
import torch

from supple.registry.errors import RunError, UsageError
from supple.scripts.doctor import main
from tests.zoo import networks
from tests.zoo.networks import make, zoo
from tests.zoo.state import differences, take
from tests.zoo.trials import VARIANTS, draw_fresh, intervened, measured, tried


@pytest.mark.parametrize("name", zoo())
def test_every_metric_and_intervention_keeps_its_promises(name: str) -> None:
    kind = zoo()[name]
    found = [*measured(kind), *(intervened(kind, text) for text in VARIANTS), tried(kind, "fresh values", draw_fresh)]
    assert [outcome for outcome in found if outcome.kind == "broken"] == []


THIRD = {
    "its_layers": lambda module, kind: (),
    "made_anew": lambda module, kind: (kind.make,),
    "a_state_dict": lambda module, kind: (make(kind)[0].state_dict(),),
}


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.mark.parametrize("third", THIRD)
@pytest.mark.parametrize("name", zoo())
def test_doctor_diagnoses_a_network_or_refuses_it_in_one_line(name, third, tmp_path: Path, capsys, monkeypatch) -> None:
    kind = zoo()[name]
    module, *inputs = make(kind)
    given = (module, tuple(inputs), *THIRD[third](module, kind))
    monkeypatch.setattr(networks, "GIVEN", given, raising=False)
    (file := tmp_path / "mine.py").write_text(
        "from tests.zoo import networks\n\ndef network():\n    return networks.GIVEN\n"
    )
    before = take(module, inputs=inputs)
    try:
        main([f"{file}:network", "--updates", "2"])
    except (UsageError, RunError) as error:
        said = str(error)
        assert "\n" not in said
        assert len(said) < 500
    else:
        assert "error on random targets" in capsys.readouterr().out
    changed = set(differences(before, take(module, inputs=inputs)))
    assert changed <= {"generator of python"}  # from which the command itself draws
