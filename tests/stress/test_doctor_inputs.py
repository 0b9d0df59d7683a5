"""Bad inputs of every way to give `supple doctor` a network.

Each attempt must end as it should: with a diagnosis, or with one line on standard error, exit status 1 or 2, no
traceback and no file written. Counted by class: pytest -s tests/stress/test_doctor_inputs.py. What a file says that it
needs of memory, and other readers, are in test_reader_inputs.py.
"""

import io
import itertools
import os
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

from supple.engine.user_code import networks
from supple.engine.user_code.one_line import place_of
from supple.interventions import learner_for
from supple.metrics import diagnose
from tests.stress.attempts import ask, counted, held, judge, nothing_written  # noqa: F401  (fixtures)
from tests.zoo import odd_functions

FILE = Path(odd_functions.__file__)
EQUAL = {  # what truly has equal outputs for all inputs
    "m_zero_width", "m_constant", "f_constant", "f_zeros", "f_one_row", "i_one_row", "i_equal_rows", "i_denormal",
    "i_equal_large", "t_ints", "m_zero_inputs_wide", "--steps 1",
}  # fmt: skip


# -- functions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "will"), odd_functions.WILL.items())
def test_functions_that_return_bad_networks(name: str, will: str, monkeypatch) -> None:
    judge(will, ask(["doctor", f"{FILE}:{name}", "--updates", "2"], monkeypatch), name in EQUAL)
    held("functions")


def from_python(name: str) -> BaseException | None:
    """Diagnose a network by the functions of the library, and return what they raise."""
    try:
        module, inputs, *_ = getattr(odd_functions, name)()
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        learner = learner_for(module, probe=lambda: inputs, loss=lambda: networks._loss(module(*inputs)))
        found = diagnose(learner, updates=2)
    except BaseException as error:
        return error
    assert found.loss == found.loss
    assert found.new_loss == found.new_loss
    return None


@pytest.mark.parametrize("name", [name for name in odd_functions.WILL if name.startswith(("m_", "f_", "i_"))])
def test_bad_networks_given_from_python(name: str) -> None:
    """From Python, user code may raise its own exceptions; ours are ValueErrors in one line."""
    error = from_python(name)
    if isinstance(error, ValueError):
        assert "\n" not in str(error)
        assert name in EQUAL or "equal outputs for all" not in str(error)
    elif error is not None:
        assert place_of(error).startswith("odd") or name in ("m_parameters_none", "f_grows")
    held("Python")


FILES_OF_CODE = {
    "syntax": "def network(:\n", "nul": "x = 1\0\n", "exits": "import sys; sys.exit(0)\n",
    "interrupts": "raise KeyboardInterrupt\n",
    "imports": "import nowhere_at_all\n", "recursion": "def f(): f()\nf()\n", "deep": "(" * 500 + ")" * 500,
    "empty": "",
    "latin": b"x = '\xff'\n", "group": "raise BaseExceptionGroup('g', [SystemExit(0)])",
    "getattr": "def __getattr__(name): raise SystemExit(0)",
    "stdin": "input()\n", "indent": "  x = 1\n y = 2\n", "long": "x = " + "1+" * 50_000 + "1\n",
}  # fmt: skip


@pytest.mark.parametrize("name", FILES_OF_CODE)
def test_files_that_fail_when_they_are_imported(name: str, tmp_path: Path, monkeypatch) -> None:
    text = FILES_OF_CODE[name]
    (tmp_path / "mine.py").write_bytes(text if isinstance(text, bytes) else text.encode())
    judge("refused", ask(["doctor", f"{tmp_path / 'mine.py'}:network"], monkeypatch))
    held("files of code")


# -- names ------------------------------------------------------------------------------------------------------------

NAMES = [
    "", " ", ".", "..", "/", "/dev/null", "/dev/zero", "/dev/stdin", "nowhere", "nowhere.zip", "nowhere.py",
    "nowhere.py:", ":network",
    ".py:network", "nowhere.py:network", "mine.py:", "mine.py:a.b", "mine.py:1", "{tmp}", "{tmp}/mine.py",
    "{tmp}:network", "{file}:", "{file}::m_shared",
    "{file}:m_shared.x", "{file}:__doc__", "{file}:__builtins__", "{file}:nn", "{file}:torch",
    "https://example.org/x.zip", "llama:", "llama:0x0", "llama:8",
    "llama:-8x1", "llama:1e9x1", "smollm2", "a/b/c", "\x00", "x" * 5000, "{file}:m shared", "\ud800", "~nobody/x",
    "x.gguf", "{tmp}/x.gguf",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_bad_names_of_functions(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + b"\xff" * 100)
    (tmp_path / "text.txt").write_text("words " * 2000)
    words = ["doctor", name.format(tmp=tmp_path, file=FILE)]
    judge("refused", ask([*words, "--updates", "2"], monkeypatch))
    if ".py" not in name and ".zip" not in name:
        judge("refused", ask([*words, "--updates", "2", "--text", str(tmp_path / "text.txt")], monkeypatch))
    held("names")


# -- what is tried ----------------------------------------------------------------------------------------------------

TRIES = [
    "snp(", "snp)", "snp(lam", "snp(lam=", "snp(lam=)", "snp(lam=0.8", "snp(lam=0.8))", "snp(lam=2)", "snp(lam=-1)",
    "snp(lam=nan)", "snp(lam=inf)",
    "snp(lam=1e400)", "snp(lam=true)", "snp(lam=none)", "snp(lam=[1,2])", "snp(lam='x')", "snp(lam=0.5,lam=0.5)",
    "snp(nam=0.5)", "snp(0.5)", "fier", "fire@0.5",
    "fire@task", "fire@", "@0.5", "fire@every:10", "none", "none()", "model/fire", "/fire", "fire()@start", "", " ",
    ",", "()", "fire()()", "fire;redo", "fire(steps=0)",
    "fire(steps=-1)", "fire(steps=1e18)", "fire(steps=1.5)", "fire(scope=nothing)", "fire(scope='')", "redo(tau=nan)",
    "redo(tau=-1)", "reset(what=everything)", "reset(toward=mars)",
    "cbp", "l2_init", "ewc", "dash", "injection", "swap(activation=elu)", "nap", "muon", "layernorm", "spectral(",
    "\x00", "fire\n", "é", "fire(é=1)", "'fire'", "\"fire", "fire(steps='",
    "a" * 5000, "fire(" + "steps=1," * 3000 + ")", "(" * 3000, "snp(lam=" + "9" * 5000 + ")",
    "snp(lam=0." + "1" * 5000 + ")", "swap(activation=" + "swap(activation=" * 500, "fire(steps=0x10)",
]  # fmt: skip


@pytest.mark.parametrize("text", TRIES)
def test_bad_interventions_to_try(text: str, monkeypatch) -> None:
    judge("either", ask(["doctor", f"{FILE}:m_shared", "--updates", "2", "--try", text], monkeypatch))
    held("tries")


OPTIONS = [
    "--updates 0", "--updates -1", "--updates nan", "--updates inf", "--updates 1e400", "--updates", "--updates x",
    "--updates 1.5", "--threads 0", "--threads -3",
    "--threads 1e30", "--learner nobody", "--learner critic", "--forward nothing", "--forward __init__",
    "--forward one", "--forward training", "--forward _modules", "--forward ''",
    "--out /dev/null", "--out /dev/null/x", "--out {file}", "--out /proc/x", "--plugin nowhere.py", "--plugin nowhere",
    "--sb3 PPO", "--env CartPole-v1", "--text x", "--steps 3", "--try",
]  # fmt: skip


@pytest.mark.parametrize("text", OPTIONS)
def test_bad_options(text: str, monkeypatch) -> None:
    words = ["doctor", f"{FILE}:m_shared", *([] if "--updates" in text else ["--updates", "2"])]
    given = [word.replace("''", "").format(file=FILE) for word in text.split()]
    judge("either" if text in ("--try", "--forward ''") else "refused", ask([*words, *given], monkeypatch))
    held("options")


# -- zips of Stable-Baselines3 ----------------------------------------------------------------------------------------


def stored(value: object, **how: object) -> bytes:
    data = io.BytesIO()
    torch.save(value, data, **how)  # type: ignore[arg-type]
    return data.getvalue()


def zipped(members: dict[str, bytes], **how: object) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", **how) as archive:  # type: ignore[arg-type]
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


@pytest.fixture(scope="module")
def right(tmp_path_factory) -> dict[str, torch.Tensor]:
    sb3 = pytest.importorskip("stable_baselines3")
    return sb3.DQN(
        "MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [8]}, seed=0, device="cpu"
    ).policy.state_dict()


def with_size(content: bytes, name: str, size: int) -> bytes:
    """Let a zip's directory say another size for a member."""
    at = content.rindex(b"PK\x01\x02")
    while content[at + 46 : at + 46 + len(name)] != name.encode():
        at = content.rindex(b"PK\x01\x02", 0, at)
    return content[: at + 24] + size.to_bytes(4, "little") + content[at + 28 :]


def flagged(content: bytes, flag: int = 1, method: int | None = None) -> bytes:
    at = content.rindex(b"PK\x01\x02")
    changed = bytearray(content)
    changed[at + 8] |= flag
    changed[6] |= flag
    if method is not None:
        changed[at + 10 : at + 12] = method.to_bytes(2, "little")
        changed[8:10] = method.to_bytes(2, "little")
    return bytes(changed)


A_ZIP = ("--sb3", "DQN", "--env", "CartPole-v1", "--net-arch", "8", "--steps", "32", "--updates", "2")
HOSTILE = b"cos\nsystem\n(S'touch executed'\ntR."
DEEP = 100_000


def zips(right: dict[str, torch.Tensor]) -> dict[str, bytes]:
    good = stored(right)
    first = next(iter(right))
    deflated = zipfile.ZIP_DEFLATED

    def changed(**values: object) -> bytes:
        return zipped({"policy.pth": stored({**right, **values})})

    wide = {f"mlp_extractor.shared_net.{2 * i}.weight": torch.zeros(100_000, 1) for i in range(2)}
    inner = zipped(
        {"archive/data.pkl": b"\x80\x02}.", "archive/data/0": bytes(10**8), "archive/version": b"3\n"},
        compression=deflated,
    )
    members: dict[str, bytes] = {
        "empty": b"", "text": b"no archive", "half": zipped({"policy.pth": good})[:500], "no_members": zipped({}),
        "no_policy": zipped({"data": b"{}"}), "other_name": zipped({"Policy.pth": good}),
        "in_a_folder": zipped({"x/policy.pth": good}),
        "absolute": zipped({"/policy.pth": good, "/etc/evil": b"x"}),
        "above": zipped({"../policy.pth": good, "../../evil": b"x"}),
        "empty_policy": zipped({"policy.pth": b""}), "text_policy": zipped({"policy.pth": b"weights"}),
        "hostile": zipped({"policy.pth": HOSTILE}),
        "list": zipped({"policy.pth": stored([1, 2])}), "number": zipped({"policy.pth": stored(3)}),
        "none": zipped({"policy.pth": stored(None)}),
        "tensor": zipped({"policy.pth": stored(torch.ones(3))}), "numbers": zipped({"policy.pth": stored({"a": 3})}),
        "keys": zipped({"policy.pth": stored({3: torch.ones(2)})}),
        "empty_dict": zipped({"policy.pth": stored({})}),
        "other_names": zipped({"policy.pth": stored({"a": torch.ones(2)})}),
        "string": zipped({"policy.pth": stored("x")}),
        "module": zipped({"policy.pth": stored(nn.Linear(2, 2))}), "shapes": changed(**{first: torch.ones(3, 3)}),
        "spare": changed(more=torch.ones(2)),
        "missing": zipped({"policy.pth": stored({k: v for k, v in right.items() if k != first})}),
        "nan": changed(**{first: right[first] * torch.nan}),
        "inf": changed(**{first: right[first] / 0}), "complex": changed(**{first: right[first].to(torch.complex64)}),
        "meta": changed(**{first: right[first].to("meta")}),
        "sparse": changed(**{first: right[first].to_sparse()}),
        "expanded": changed(**{first: torch.ones(1).expand(2**40)}), "scalar": changed(**{first: torch.tensor(1.0)}),
        "quantised": changed(**{first: torch.quantize_per_tensor(right[first], 0.1, 0, torch.qint8)}),
        "none_value": changed(**{first: None}), "nested": changed(**{first: {"a": right[first]}}),
        "wide": zipped({"policy.pth": stored({**right, **wide})}), "log_std": changed(log_std=torch.tensor(3.0)),
        "strange_layer": changed(**{"mlp_extractor.shared_net.x.weight": torch.ones(2, 2)}),
        "encrypted": flagged(zipped({"policy.pth": good})),
        "lzma": zipped({"policy.pth": good}, compression=zipfile.ZIP_LZMA),
        "bzip2": zipped({"policy.pth": good}, compression=zipfile.ZIP_BZIP2),
        "unknown_method": flagged(zipped({"policy.pth": good}), 0, 97),
        "damaged": bytearray(zipped({"policy.pth": good})),
        "says_less": with_size(zipped({"policy.pth": good}, compression=deflated), "policy.pth", 100),
        "says_more": with_size(zipped({"policy.pth": good}), "policy.pth", 2**32 - 2),
        "says_some_more": with_size(zipped({"policy.pth": good}, compression=deflated), "policy.pth", len(good) + 999),
        "bomb": zipped({"policy.pth": bytes(10**8)}, compression=deflated, compresslevel=9),
        "nested_bomb": zipped({"policy.pth": inner}),
        "nested_zip": zipped({"policy.pth": zipped({"policy.pth": good})}),
        "legacy": zipped({"policy.pth": stored(right, _use_new_zipfile_serialization=False)}),
        "legacy_cut": zipped({"policy.pth": stored(right, _use_new_zipfile_serialization=False)[:-200]}),
        "cut_policy": zipped({"policy.pth": good[:-200]}),
        "scripted": zipped({"policy.pth": scripted()}),
        "data_of_100_mb": zipped({"policy.pth": good, "data": b"[" * 10**8}, compression=deflated),
        "deep_data": zipped({"policy.pth": good, "data": b"[" * DEEP}),
        "nan_data": zipped({"policy.pth": good, "data": b'{"gamma": NaN}'}),
        "hostile_data": zipped({"policy.pth": good, "data": HOSTILE, "pytorch_variables.pth": HOSTILE}),
        "half_dtype": zipped({"policy.pth": stored({k: v.half() for k, v in right.items()})}),
        "ints": zipped({"policy.pth": stored({k: (v * 10).long() for k, v in right.items()})}),
        "right": zipped({"policy.pth": good}), "prefixed": b"#!/bin/sh\n" + zipped({"policy.pth": good}),
        "commented": zipped({"policy.pth": good})[:-2] + b"\x05\x00hello",
        "long_names": changed(**{"x" * 100_000: torch.ones(2)}),
        "odd_names": changed(**{"\x1b[31m\n\ud7ff": torch.ones(2)}), "dotted": changed(**{"..": torch.ones(2)}),
        "no_name": changed(**{"": torch.ones(2)}),
    }  # fmt: skip
    members["damaged"][200] ^= 255  # type: ignore[index]
    doubled = zipped({"policy.pth": good, "Policy.pth": HOSTILE})
    members["doubled"] = doubled.replace(b"Policy.pth", b"policy.pth")
    return members


def scripted() -> bytes:
    data = io.BytesIO()
    torch.jit.save(torch.jit.script(nn.Linear(2, 2)), data)
    return data.getvalue()


FINE = {
    "right", "legacy", "data_of_100_mb", "deep_data", "nan_data", "hostile_data", "half_dtype", "ints", "prefixed",
    "commented", "says_some_more",
}  # fmt: skip


def test_bad_zip_files(right, tmp_path: Path, monkeypatch) -> None:
    fell = []
    for name, content in zips(right).items():
        (tmp_path / "model.zip").write_bytes(content)
        words = list(A_ZIP)
        try:
            judge(
                "either" if name in FINE else "refused",
                ask(["doctor", str(tmp_path / "model.zip"), *words], monkeypatch),
            )
            if name in ("bomb", "hostile", "wide", "shapes"):
                words[1] = "PPO"
                judge("refused", ask(["doctor", str(tmp_path / "model.zip"), *words], monkeypatch))
            held("zips")
        except BaseException as error:
            fell.append(f"{name}: {type(error).__name__}: {str(error)[:400]}")
    assert not fell, "\n".join(fell)


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "broken_link", "loop", "zero", "unreadable"])
def test_zip_paths_that_are_not_plain_files(kind: str, right, tmp_path: Path, monkeypatch) -> None:
    place = tmp_path / "model.zip"
    (tmp_path / "real").write_bytes(zipped({"policy.pth": stored(right)}))
    {
        "folder": place.mkdir, "pipe": lambda: os.mkfifo(place), "link": lambda: place.symlink_to("real"),
        "broken_link": lambda: place.symlink_to("nothing"),
        "loop": lambda: place.symlink_to("model.zip"), "zero": lambda: place.symlink_to("/dev/zero"),
        "unreadable": lambda: place.write_bytes(b""),
    }[kind]()  # fmt: skip
    words = list(A_ZIP)
    judge("diagnosed" if kind == "link" else "refused", ask(["doctor", str(place), *words], monkeypatch))
    held("zips")


@pytest.mark.parametrize(
    "text",
    [
     "--sb3 PPP", "--sb3 ''", "--env Nowhere-v0", "--env ''", "--env nowhere:X-v0", "--policy Nothing",
     "--policy CnnPolicy", "--policy ''", "--net-arch 0", "--net-arch -1", "--net-arch x",
     "--net-arch 8 8", "--steps 0", "--steps 1", "--steps 1e15", "--policy-kwargs nothing",
     "--policy-kwargs {file}:e_exit_0", "--policy-kwargs {file}:e_interrupt", "--policy-kwargs {file}:r_none",
     "--policy-kwargs {file}:r_number", "--policy-kwargs {file}:r_coroutine", "--policy-kwargs {file}:e_unprintable",
     "--env Pendulum-v1",
    ],
)  # fmt: skip
def test_bad_options_of_a_zip(text: str, right, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "model.zip").write_bytes(zipped({"policy.pth": stored(right)}))
    words = list(A_ZIP)
    given = [word.replace("''", "").format(file=FILE) for word in text.split()]
    will = "either" if text == "--steps 1" else "refused"
    judge(will, ask(["doctor", str(tmp_path / "model.zip"), *words, *given], monkeypatch), text in EQUAL)
    held("options of zips")


# -- supple check -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", TRIES)
def test_bad_calls_of_check(text: str, tmp_path: Path, monkeypatch) -> None:
    plugin = tmp_path / f"plugin_{next(NUMBERS)}.py"  # a module that was imported is not imported again
    plugin.write_text(PLUGIN.replace("NAME", plugin.stem))
    code, _, err = ask(["check", str(plugin), text], monkeypatch)
    assert code in (0, 1, 2)
    assert len(err.splitlines()) == (code != 0)
    held("calls of check")


NUMBERS = itertools.count()
PLUGIN = """
from supple.interventions import Intervention, interventions

@interventions.register("NAME")
class Mine(Intervention):
    name = "NAME"
    def apply(self, learner): return ()
"""


@pytest.mark.parametrize("name", FILES_OF_CODE)
def test_bad_files_for_check(name: str, tmp_path: Path, monkeypatch) -> None:
    text = FILES_OF_CODE[name]
    (tmp_path / f"mine_{name}.py").write_bytes(text if isinstance(text, bytes) else text.encode())
    judge("refused", ask(["check", str(tmp_path / f"mine_{name}.py")], monkeypatch))
    held("files of check")
