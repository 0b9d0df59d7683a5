"""Bad files for every other reader (models, runs, data sets, corpora, examples), and files that need much memory.

As test_doctor_inputs.py. Sizes are looked at before anything is unpacked, and may lie.
"""

import gzip
import io
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from supple.registry.errors import RunError, UsageError
from supple.scripts.fetch import fetch
from supple.scripts.main import dispatch
from supple.tracks.language.corpora.prepare import prepare
from supple.tracks.language.corpora.tokenizers import read_tokenizer
from supple.tracks.language.corpora.tokens import TokenFile, write_tokens
from supple.tracks.language.examples import load_task
from supple.tracks.language.models import load_model, model_type, save_model
from supple.tracks.vision.data import load
from tests.stress.attempts import ask, counted, held, judge, nothing_written  # noqa: F401  (fixtures)

HOSTILE = b"cos\nsystem\n(S'touch executed'\ntR."
DEEP = "[" * 100_000
JUNK = {
    "empty": b"", "text": b"junk", "list": b"[1, 2]", "number": b"3", "nan": b"NaN", "deep": DEEP.encode(),
    "nul": b"\0" * 100,
    "latin": b'{"a": "\xff"}', "object": b"{}", "digits": b'{"a": ' + b"9" * 5000 + b"}", "pickle": HOSTILE,
    "null": b"null",
}  # fmt: skip


def header(entries: object, data: bytes = b"", length: int | None = None) -> bytes:
    """Return a safetensors file with this header, which may say another length."""
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(shape: list[int], offsets: list[int], kind: str = "F32") -> dict[str, object]:
    return {"dtype": kind, "shape": shape, "data_offsets": offsets}


SAFETENSORS = {
    **JUNK, "long_header": header({}, length=2**63), "header_of_1_tb": header({}, length=2**40),
    "beyond": header({"a": tensor([2**40], [0, 2**42])}),
    "negative": header({"a": tensor([-4], [0, 4])}, bytes(4)),
    "reversed": header({"a": tensor([1], [4, 0])}, bytes(4)),
    "overlapping": header({"a": tensor([1], [0, 4]), "b": tensor([1], [0, 4])}, bytes(4)),
    "gap": header({"a": tensor([1], [4, 8])}, bytes(8)), "kind": header({"a": tensor([1], [0, 4], "X9")}, bytes(4)),
    "overflow": header({"a": tensor([2**62, 2**62], [0, 4])}, bytes(4)),
    "none": header({}), "other": header({"a": tensor([1], [0, 4])}, bytes(4)), "zip": b"PK\x05\x06" + bytes(18),
}  # fmt: skip


def replacing(kind: str, file: Callable[[Path], Path], contents: dict[str, bytes]) -> dict[str, Callable]:
    """Return the changes that write these contents into a file of a folder."""
    return {f"{kind}_{name}": lambda folder, c=c: file(folder).write_bytes(c) for name, c in contents.items()}


def pipe(file: Path) -> None:
    file.unlink(missing_ok=True)
    os.mkfifo(file)


def linked(file: Path, to: str) -> None:
    file.unlink(missing_ok=True)
    file.symlink_to(to)


# -- folders of transformers ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Path:
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("model") / "llama"
    save_model(load_model("llama:32x1"), folder)
    return folder


def changed(file: Path, **values: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def weights(folder: Path, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    file = folder / "model.safetensors"
    found = load_file(file)
    name = next(iter(found))
    save_file({**found, name: change(found[name]).contiguous()}, file, {"format": "pt"})


def as_bin(folder: Path, content: bytes) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(content)


def zip_bomb() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}.")
        archive.writestr("archive/data/0", bytes(10**8))
    return data.getvalue()


def own_code(folder: Path) -> None:
    changed(folder / CONFIG, model_type="own", auto_map={"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own"})
    (folder / "own.py").write_text("open('executed', 'w')")


def elsewhere(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    text = '{"metadata": {}, "weight_map": {"a": "../../../etc/passwd"}}'
    (folder / "model.safetensors.index.json").write_text(text)


CONFIG = "config.json"
FOLDERS: dict[str, Callable[[Path], object]] = {
    **replacing("config", lambda f: f / CONFIG, JUNK),
    **replacing("weights", lambda f: f / "model.safetensors", SAFETENSORS),
    **replacing("tokenizer", lambda f: f / "tokenizer.json", JUNK),
    "no_config": lambda f: (f / CONFIG).unlink(), "no_weights": lambda f: (f / "model.safetensors").unlink(),
    "type": lambda f: changed(f / CONFIG, model_type="nothing"),
    "own_code": lambda f: own_code(f),
    "huge": lambda f: changed(f / CONFIG, hidden_size=10**9, intermediate_size=10**9),
    "huge_vocabulary": lambda f: changed(f / CONFIG, vocab_size=10**10),
    "layers": lambda f: changed(f / CONFIG, num_hidden_layers=10**5),
    "negative": lambda f: changed(f / CONFIG, hidden_size=-32), "zero": lambda f: changed(f / CONFIG, hidden_size=0),
    "texts": lambda f: changed(f / CONFIG, hidden_size="x"),
    "nan": lambda f: changed(f / CONFIG, rms_norm_eps=float("nan")),
    "bert": lambda f: changed(f / CONFIG, model_type="bert"),
    "vit": lambda f: changed(f / CONFIG, model_type="vit", architectures=["ViTModel"]),
    "nan_weights": lambda f: weights(f, lambda w: w * torch.nan),
    "inf_weights": lambda f: weights(f, lambda w: w / 0), "shape": lambda f: weights(f, lambda w: w[:1]),
    "complex": lambda f: weights(f, lambda w: w.to(torch.complex64)),
    "half": lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-100]),
    "hostile_bin": lambda f: as_bin(f, HOSTILE), "bin_bomb": lambda f: as_bin(f, zip_bomb()),
    "empty_bin": lambda f: as_bin(f, b""), "pipe": lambda f: pipe(f / CONFIG),
    "weights_pipe": lambda f: pipe(f / "model.safetensors"),
    "zero_link": lambda f: linked(f / "tokenizer.json", "/dev/zero"), "loop": lambda f: linked(f / CONFIG, CONFIG),
    "broken_link": lambda f: linked(f / "model.safetensors", "nothing"),
    "index": lambda f: elsewhere(f),
    "other_tokenizer": lambda f: changed(f / "tokenizer_config.json", tokenizer_class="Nothing"),
}  # fmt: skip
MAY_WORK = {"tokenizer_object", "nan", "other_tokenizer", "weights_pipe", "vit"}


@pytest.mark.parametrize("name", FOLDERS)
def test_bad_folders_of_transformers_models(name: str, llama: Path, tmp_path: Path, monkeypatch) -> None:
    folder = shutil.copytree(llama, tmp_path / "model")
    (tmp_path / "text.txt").write_text("words " * 2000)
    FOLDERS[name](folder)
    words = ["doctor", str(folder), "--text", str(tmp_path / "text.txt"), "--updates", "1"]
    judge("either" if name in MAY_WORK else "refused", ask(words, monkeypatch))
    assert isinstance(model_type(str(folder)), str)
    held("folders of transformers")


TEXTS: dict[str, Callable[[Path], object]] = {
    "missing": lambda f: None, "folder": lambda f: f.mkdir(), "empty": lambda f: f.write_text(""),
    "short": lambda f: f.write_text("a few words"), "pipe": pipe,
    "zero": lambda f: linked(f, "/dev/zero"), "loop": lambda f: linked(f, f.name),
    "binary": lambda f: f.write_bytes(os.urandom(5000)), "nul": lambda f: f.write_bytes(bytes(5000)),
    "sparse": lambda f: (f.touch(), os.truncate(f, 10**10)), "one_line": lambda f: f.write_text("a" * 10**6),
    "surrogates": lambda f: f.write_bytes(b"\xed\xa0\x80" * 1000),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_bad_texts_for_doctor(name: str, llama: Path, tmp_path: Path, monkeypatch) -> None:
    TEXTS[name](tmp_path / "text.txt")
    judge(
        "either",
        ask(["doctor", str(llama), "--text", str(tmp_path / "text.txt"), "--updates", "1"], monkeypatch),
        equal=True,
    )
    held("texts")


# -- runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    words = (
        "train ppo --env CartPole-v1 --steps 80 --num-envs 2 --rollout-steps 20 --minibatch-size 10 --epochs 1 "
        "--hidden 8 --adapter 8 --compile off --checkpoint-every 80 --eval-episodes 0"
    )
    dispatch([*words.split(), "--out", str(path)])
    return path


def checkpoint(run: Path) -> Path:
    return next(folder for folder in (run / "checkpoints").iterdir() if folder.name.isdigit())


RUNS: dict[str, Callable[[Path], object]] = {
    **replacing("config", lambda r: r / CONFIG, JUNK),
    **replacing("state", lambda r: checkpoint(r) / "state.json", JUNK),
    **replacing("tensors", lambda r: checkpoint(r) / "state.safetensors", SAFETENSORS),
    "no_config": lambda r: (r / CONFIG).unlink(), "no_checkpoints": lambda r: shutil.rmtree(r / "checkpoints"),
    "pipe": lambda r: pipe(r / CONFIG), "state_pipe": lambda r: pipe(checkpoint(r) / "state.json"),
    "zero": lambda r: linked(r / CONFIG, "/dev/zero"),
    "other_step": lambda r: checkpoint(r).rename(r / "checkpoints/000000000099"),
    "edited": lambda r: changed(r / CONFIG, seed=3),
    "file": lambda r: (shutil.rmtree(r / "checkpoints"), (r / "checkpoints").write_text("")),
    "only_folder": lambda r: [shutil.rmtree(r), r.mkdir()],
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_bad_checkpoints_of_a_run(name: str, run: Path, tmp_path: Path, monkeypatch) -> None:
    folder = shutil.copytree(run, tmp_path / "run")
    RUNS[name](folder)
    judge("refused", ask(["doctor", str(folder), "--updates", "1"], monkeypatch))
    held("runs")


# -- data -------------------------------------------------------------------------------------------------------------


def idx(array: np.ndarray, shape: tuple[int, ...] | None = None) -> bytes:
    shape = shape or array.shape
    return bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes() + array.tobytes()


def mnist(folder: Path) -> Path:
    for split in ("train", "t10k"):
        (folder / f"{split}-images-idx3-ubyte").write_bytes(idx(np.zeros((3, 28, 28), np.uint8)))
        (folder / f"{split}-labels-idx1-ubyte").write_bytes(idx(np.zeros(3, np.uint8)))
    return folder


def npy(value: np.ndarray, shape: object = None) -> bytes:
    """Return an npy file, whose header may say another shape."""
    data = io.BytesIO()
    if shape is None:
        np.save(data, value, allow_pickle=True)
    else:
        text = f"{{'descr': '{value.dtype.str}', 'fortran_order': False, 'shape': {shape}, }}".encode()
        data.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text + b"\n" + value.tobytes())
    return data.getvalue()


def npz(file: Path, deflate: bool = False, **members: bytes) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def imagenet(folder: Path) -> Path:
    for name in (*(f"train_data_batch_{i}" for i in range(1, 11)), "val_data"):
        npz(folder / f"{name}.npz", data=npy(np.zeros((2, 3072), np.uint8)), labels=npy(np.ones(2, np.int64)))
    return folder


def png(width: int, height: int, data: bytes = b"") -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def images(folder: Path) -> Path:
    for split in ("train", "test"):
        (folder / split / "a").mkdir(parents=True)
        (folder / split / "a" / "x.png").write_bytes(png(2, 2, b"\0" * 14))
    return folder


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
BATCH = "train_data_batch_3.npz"
CALL = "__import__('os').system('touch executed')"
ONES, PIXELS = npy(np.ones(2, np.int64)), npy(np.zeros((2, 3072), np.uint8))


def packed(folder: Path, content: bytes) -> None:
    (folder / IMAGES).unlink()
    (folder / f"{IMAGES}.gz").write_bytes(content)


MNIST: dict[str, Callable[[Path], object]] = {
    **{name: lambda f, c=content: (f / IMAGES).write_bytes(c) for name, content in JUNK.items()},
    "lies": lambda f: (f / IMAGES).write_bytes(idx(np.zeros(10, np.uint8), (2**32 - 1, 2**32 - 1, 2**32 - 1))),
    "sparse": lambda f: os.truncate(f / IMAGES, 10**10), "pipe": lambda f: pipe(f / IMAGES),
    "zero": lambda f: linked(f / IMAGES, "/dev/zero"),
    "folder": lambda f: ((f / IMAGES).unlink(), (f / IMAGES).mkdir()),
    "label": lambda f: (f / LABELS).write_bytes(idx(np.full(3, 200, np.uint8))),
    "gzip_bomb": lambda f: packed(f, gzip.compress(bytes(10**8))),
    "gzip_lies": lambda f: packed(f, gzip.compress(idx(np.zeros(10, np.uint8), (2**30, 28, 28)))),
    "gzip_cut": lambda f: packed(f, gzip.compress(bytes(1000))[:-9]),
    "gzip_tail": lambda f: packed(f, gzip.compress(idx(np.zeros((3, 28, 28), np.uint8))) + b"tail"),
    "gzip_of_gzip": lambda f: packed(f, gzip.compress(gzip.compress(b"x"))),
    "no_images": lambda f: (f / IMAGES).write_bytes(idx(np.zeros((0, 28, 28), np.uint8))),
}  # fmt: skip
NPZ: dict[str, Callable[[Path], object]] = {
    **{name: lambda f, c=content: (f / BATCH).write_bytes(c) for name, content in JUNK.items()},
    "objects": lambda f: npz(f / BATCH, data=PIXELS, labels=npy(np.array([None, 1], object))),
    "hostile": lambda f: npz(f / BATCH, data=PIXELS, labels=npy(np.zeros(0, object), "(2,)") + HOSTILE),
    "no_labels": lambda f: npz(f / BATCH, data=PIXELS),
    "lies": lambda f: npz(f / BATCH, data=npy(np.zeros(2, np.uint8), (2**40, 3072)), labels=ONES),
    "lies_less": lambda f: npz(f / BATCH, data=npy(np.zeros((2, 3072), np.uint8), (1, 3072)), labels=ONES),
    "negative": lambda f: npz(f / BATCH, data=PIXELS, labels=npy(np.ones(2, np.int64), "(-2,)")),
    "code": lambda f: npz(f / BATCH, data=PIXELS, labels=npy(np.ones(2), CALL)),
    "nested": lambda f: npz(f / BATCH, data=PIXELS, labels=npy(np.ones(2, np.int64), "(" * 5000)),
    "scalar": lambda f: npz(f / BATCH, data=PIXELS, labels=npy(np.array(1))),
    "nan": lambda f: npz(f / BATCH, data=PIXELS, labels=npy(np.full(2, np.nan))),
    "floats": lambda f: npz(f / BATCH, data=npy(np.full((2, 3072), np.nan)), labels=ONES),
    "texts": lambda f: npz(f / BATCH, data=PIXELS, labels=npy(np.array(["a", "b"]))),
    "complex": lambda f: npz(f / BATCH, data=PIXELS, labels=npy(np.ones(2, complex))),
    "bomb": lambda f: npz(f / BATCH, True, data=npy(np.zeros(10**8, np.uint8)), labels=ONES),
    "labels_bomb": lambda f: npz(f / BATCH, True, data=PIXELS, labels=npy(np.ones(10**7, np.int64))),
    "negative_label": lambda f: npz(f / BATCH, data=PIXELS, labels=npy(np.full(2, -1))),
    "columns": lambda f: npz(f / BATCH, data=npy(np.zeros((3072, 2), np.uint8)), labels=ONES),
    "version": lambda f: npz(f / BATCH, data=PIXELS, labels=b"\x93NUMPY\x09\x00" + ONES[8:]),
    "cut": lambda f: (f / BATCH).write_bytes((f / BATCH).read_bytes()[:-50]), "pipe": lambda f: pipe(f / BATCH),
    "zero": lambda f: linked(f / BATCH, "/dev/zero"),
}  # fmt: skip
PICTURES: dict[str, Callable[[Path], object]] = {
    **{name: lambda f, c=content: (f / "x.png").write_bytes(c) for name, content in JUNK.items()},
    "bomb": lambda f: (f / "x.png").write_bytes(png(50_000, 50_000)),
    "large": lambda f: (f / "x.png").write_bytes(png(12_000, 12_000)),
    "zero_size": lambda f: (f / "x.png").write_bytes(png(0, 0)),
    "cut": lambda f: (f / "x.png").write_bytes(png(2, 2)[:40]),
    "no_pixels": lambda f: (f / "x.png").write_bytes(png(2, 2)),
    "other_size": lambda f: (f / "y.png").write_bytes(png(3, 2, b"\0" * 20)), "pipe": lambda f: pipe(f / "x.png"),
    "zero": lambda f: linked(f / "x.png", "/dev/zero"), "loop": lambda f: linked(f / "x.png", "x.png"),
    "folder": lambda f: ((f / "x.png").unlink(), (f / "x.png").mkdir()),
    "svg": lambda f: (f / "x.png").write_text("<svg/>"),
    "gif": lambda f: (f / "x.png").write_bytes(b"GIF89a\x01\x00\x01\x00\x00\x00\x00;"),
    "ppm_lies": lambda f: (f / "x.png").write_bytes(b"P6 99999 99999 255\n"),
    "bmp_lies": lambda f: (f / "x.png").write_bytes(b"BM" + bytes(24) + struct.pack("<ii", 2**30, 2**30) + bytes(100)),
}  # fmt: skip
DATA = [
    *(("mnist", mnist, name, change, "") for name, change in MNIST.items()),
    *(("imagenet-32", imagenet, name, change, "") for name, change in NPZ.items()),
    *(("folder", images, name, change, "train/a") for name, change in PICTURES.items()),
    *(
        ("cifar-10", Path, name, lambda f, c=content: (f / "data_batch_1.bin").write_bytes(c), "")
        for name, content in JUNK.items()
    ),
]


@pytest.mark.parametrize(
    ("data", "make", "name", "change", "inner"), DATA, ids=lambda value: value if isinstance(value, str) else ""
)
def test_bad_data_sets(data: str, make, name: str, change, inner: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    (folder := tmp_path / "data").mkdir()
    make(folder)
    if make is not Path:
        load(data, folder)
    change(folder / inner)
    with pytest.raises((UsageError, RunError, OSError)) as refusal:
        load(data, folder)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 900
    held("data sets")


# -- texts, tokens and tokenizers -------------------------------------------------------------------------------------

FILES: dict[str, Callable[[Path], object]] = {
    **{name: lambda f, c=content: f.write_bytes(c) for name, content in JUNK.items()},
    "missing": lambda f: None, "folder": lambda f: f.mkdir(), "pipe": pipe, "zero": lambda f: linked(f, "/dev/zero"),
    "loop": lambda f: linked(f, f.name),
}  # fmt: skip


def tokens(file: Path) -> object:
    return TokenFile.open(file.with_suffix(".bin"))


READERS: dict[str, Callable[[Path], object]] = {
    "examples": lambda f: load_task(str(f), 0), "tokenizer": read_tokenizer, "tokens": tokens,
    "gguf": lambda f: load_model(str(f)), "corpus": lambda f: prepare([f], f.parent / "made", "bytes"),
}  # fmt: skip
ENDS = {"examples": "jsonl", "tokens": "json", "gguf": "gguf"}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", FILES)
def test_bad_corpora_and_examples(reader: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / f"file.{ENDS.get(reader, 'txt')}"
    FILES[name](file)
    (tmp_path / "file.bin").write_bytes(b"\0\0")
    try:
        READERS[reader](file)
    except (UsageError, RunError) as error:
        assert "\n" not in str(error)  # noqa: PT017
        assert len(str(error)) < 900  # noqa: PT017
    else:
        assert reader == "corpus"  # any text is one
    held("texts, tokens and tokenizers")


@pytest.mark.parametrize("value", ["NaN", "1e999", "-5", '"7"', "null", "[]", "99999999999999999999", "true"])
@pytest.mark.parametrize("entry", ["tokens", "vocab_size", "sha256", "tokenizer"])
def test_bad_descriptions_of_tokens(entry: str, value: str, tmp_path: Path) -> None:
    write_tokens(tmp_path / "a.bin", [np.arange(10, dtype=np.uint16)], "test", "bytes", "x", 256)
    about = (tmp_path / "a.json").read_text()
    old = json.dumps(json.loads(about)[entry])
    (tmp_path / "a.json").write_text(about.replace(f'"{entry}": {old}', f'"{entry}": {value}'))
    try:
        TokenFile.open(tmp_path / "a.bin")
    except UsageError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert (entry, value) == ("tokenizer", '"7"')
    held("texts, tokens and tokenizers")


FETCHED: dict[str, Callable[[Path], object]] = {
    **{name: lambda f, c=content: f.write_bytes(c) for name, content in JUNK.items()},
    "bomb": lambda f: f.write_bytes(gzip.compress(bytes(10**8))), "pipe": pipe,
    "zero": lambda f: linked(f, "/dev/zero"), "folder": lambda f: f.mkdir(),
}  # fmt: skip


@pytest.mark.parametrize("name", FETCHED)
def test_bad_downloads(name: str, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    for stem in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        FETCHED[name](tmp_path / f"source/{stem}-ubyte.gz")
    with pytest.raises(RunError) as refusal:
        fetch("mnist", tmp_path / "cache", str(tmp_path / "source"))
    assert "\n" not in str(refusal.value)
    held("what is fetched")


# -- memory -----------------------------------------------------------------------------------------------------------

LIMIT = 600 * 2**20  # of the peak above that of the command itself


def bomb(file: Path, size: int = 10**9) -> None:
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("policy.pth", "w", force_zip64=True) as member,
    ):
        for _ in range(size // 10**8):
            member.write(bytes(10**8))


def nested(file: Path) -> None:
    inner = file.with_suffix(".inner")
    bomb(inner)
    with zipfile.ZipFile(file, "w") as archive:
        archive.write(inner, "policy.pth")
    inner.unlink()


def lying(file: Path) -> None:
    bomb(file)
    content = file.read_bytes()
    at = content.rindex(b"PK\x01\x02")
    file.write_bytes(content[: at + 24] + (1000).to_bytes(4, "little") + content[at + 28 :])


@pytest.mark.parametrize("make", [bomb, nested, lying])
def test_files_that_unpack_to_gigabytes(make, tmp_path: Path) -> None:
    make(tmp_path / "model.zip")
    words = [str(tmp_path / "model.zip"), "--sb3", "DQN", "--env", "CartPole-v1"]
    code = (
        "import resource, runpy, sys\nfrom supple.integrations.sb3 import learners_of_saved\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "from supple.scripts.cli.console import run\nfrom supple.scripts.doctor import main\n"
        f"sys.argv = ['doctor', *{words!r}]\n"
        "try:\n    run(main)\nfinally:\n    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert int(done.stdout.split()[-1]) * 1024 < LIMIT
    held("memory")


def limited(gigabytes: float) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (int(gigabytes * 2**30),) * 2)


WIDE = """
class Wide(nn.Linear):
    def forward(self, x):
        return super().forward(x).expand(2**34, 2)
"""
CODE = {
    "huge_inputs": "def f(): return nn.Linear(4, 2), torch.ones(2**36, 4)",
    "huge_network": "def f(): return nn.Linear(2**20, 2**20), torch.ones(2, 2**20)",
    "huge_outputs": f"{WIDE}\ndef f(): return Wide(4, 2), torch.ones(1, 4)",
    "huge_list": "def f(): return [0] * 2**40",
}


@pytest.mark.parametrize("name", CODE)
def test_too_little_memory(name: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"import torch\nfrom torch import nn\n{CODE[name]}\n")
    call = [sys.executable, "-m", "supple.scripts.doctor", "mine.py:f", "--updates", "1"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, cwd=tmp_path, preexec_fn=limited(6))
    assert done.returncode in (1, 2), done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    held("memory")
