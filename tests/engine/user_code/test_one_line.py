"""Code of users: any exception becomes one line with its place, and never ends a command as if it had succeeded."""

import warnings
from pathlib import Path

import pytest

from supple.engine.user_code.networks import learner_from
from supple.engine.user_code.one_line import delaying_warnings, in_one_line, place_of
from supple.registry import brief, first_line, message_of
from supple.registry.errors import RunError, UsageError


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


RAISED = [
    SystemExit(0), SystemExit(), KeyboardInterrupt(), GeneratorExit(), BaseException("x"), StopIteration(),
    Unprintable(), BaseExceptionGroup("g", [SystemExit(0)]), RecursionError(), BrokenPipeError(), KeyError("w"),
    ValueError("one\ntwo"),
]  # fmt: skip


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_any_exception_becomes_one_line_that_names_the_place(error: BaseException) -> None:
    with pytest.raises(UsageError) as refusal, in_one_line("my_net.py:network"):
        raise error
    said = str(refusal.value)
    assert "\n" not in said
    assert said.startswith("my_net.py:network: test_one_line.py, line ")
    assert type(error).__name__ in said
    assert place_of(error) in said


def test_exceptions_of_supple_pass_and_running_out_of_memory_is_a_run_error() -> None:
    for ours in (UsageError("a"), RunError("b")):
        with pytest.raises(type(ours), match=f"^{ours}$"), in_one_line("what"):
            raise ours
    with pytest.raises(RunError, match="out of memory"), in_one_line("what"):
        raise MemoryError


def test_warnings_are_shown_after_success_only(recwarn: pytest.WarningsRecorder) -> None:
    def fails() -> None:
        warnings.warn("lost", stacklevel=1)
        raise KeyError

    with pytest.raises(KeyError), delaying_warnings():
        fails()
    with delaying_warnings():
        warnings.warn("shown", stacklevel=1)
    assert [str(each.message) for each in recwarn] == ["shown"]


def test_messages_of_exceptions_can_always_be_shown() -> None:
    assert (message_of(Unprintable()), first_line(Unprintable())) == (
        "a message that cannot be shown, because that raises RuntimeError",
        "Unprintable",
    )
    assert (message_of(ValueError("a\n b")), first_line(ValueError("\n a\nb"))) == ("a b", "a")
    assert first_line(TypeError()) == "TypeError"
    assert len(brief("x" * 5000, 4999)) < 200
    assert brief("x" * 5000 + "y", 5000).endswith("xy")


NETWORKS = """
import asyncio, sys, torch
from torch import nn

X = torch.ones(3, 2) * torch.arange(3.0)[:, None]

async def coroutine(): return nn.Linear(2, 2), X
def generator(): yield nn.Linear(2, 2)
def exits(): sys.exit(0)
def interrupts(): raise KeyboardInterrupt
def no_init():
    class Bad(nn.Module):
        def __init__(self): pass
    return Bad(), X
def cycle():
    net = nn.Sequential(nn.Linear(2, 2))
    net.append(net)
    return net, X
def copies():
    class Own(nn.Linear):
        def __deepcopy__(self, memo): raise TypeError
    return Own(2, 2), X
def nan_by_name():
    class Named(nn.Linear):
        def forward(self, x): return super().forward(x["x"])
    return Named(2, 2), ({"x": X * torch.nan},)
def meta(): return nn.Linear(2, 2), X.to("meta")
def complex_start(): return nn.Linear(2, 2), X, nn.Linear(2, 2).to(torch.complex64).state_dict()
def sparse_start(): return nn.Linear(2, 2), X, {n: v.to_sparse() for n, v in nn.Linear(2, 2).state_dict().items()}
value = 3
"""


@pytest.mark.filterwarnings("ignore:Complex modules", "error:coroutine")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("coroutine", "but returned a value of type coroutine"),
        ("generator", "but returned a value of type generator"),
        ("exits", "mine.py, line 9, in exits: SystemExit: 0"),
        ("interrupts", "mine.py, line 10, in interrupts: KeyboardInterrupt"),
        ("no_init", r"must call super\(\).__init__\(\)"),
        ("cycle", "contains itself: its part '1'"),
        ("copies", r"Own cannot be copied \(TypeError\)"),
        ("nan_by_name", "its inputs contain NaN or infinity"),
        ("meta", "its inputs are on the meta device"),
        ("complex_start", "'weight' has complex numbers there"),
        ("sparse_start", "is sparse_coo: give dense tensors"),
        ("value", "must be a function, but is a value of type int"),
    ],
)
def test_results_and_faults_of_a_users_function(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(NETWORKS)
    with pytest.raises(UsageError, match=words) as refusal:
        learner_from(f"{tmp_path / 'mine.py'}:{name}")
    assert "\n" not in str(refusal.value)
