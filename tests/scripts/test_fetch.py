"""`supple fetch`: whole files with the right hash, or one line; from a web server, a folder, or where they were."""

import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from supple.experiments.errors import RunError, UsageError
from supple.scripts import fetch as script
from supple.scripts.fetch import COLLECTIONS, Collection, fetch, main

FILES = {"a.xml": b"<a/>", "deep/er/b c.stl": bytes(range(256)) * 40, "empty": b""}


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with three files, known as the collection "things"."""
    folder = tmp_path / "published"
    for path, content in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    hashes = {path: hashlib.sha256(content).hexdigest() for path, content in FILES.items()}
    monkeypatch.setitem(COLLECTIONS, "things", Collection("three files", str(folder), lambda: hashes))
    return folder


class Handler(http.server.SimpleHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012  (shared on purpose)
    cut = ""  # path whose answer ends too early

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == self.cut:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")
            return
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(published: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Handler, "asked", [])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=published)) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_all_files_come_from_a_server_and_intact_ones_are_not_asked_for_again(tmp_path: Path, server: str):
    folder, fetched = fetch("things", tmp_path / "cache", server)
    assert (folder, fetched) == (tmp_path / "cache/things", 3)
    assert contents(folder) == FILES
    assert fetch("things", tmp_path / "cache", server + "/") == (folder, 0)
    (folder / "a.xml").write_bytes(b"<b/>")
    (folder / "empty").unlink()
    Handler.asked.clear()
    assert fetch("things", tmp_path / "cache", server + "/") == (folder, 2)
    assert Handler.asked == ["/a.xml", "/empty"]
    assert contents(folder) == FILES


def test_a_folder_is_a_source_as_well(tmp_path: Path, published: Path):
    folder, _ = fetch("things", tmp_path / "cache")
    assert contents(folder) == FILES


def test_a_wrong_file_is_refused_and_nothing_of_it_is_kept(tmp_path: Path, published: Path, server: str):
    (published / "deep/er/b c.stl").write_bytes(b"something else")
    for source in (server, str(published)):
        with pytest.raises(RunError, match=r"deep/er/b c\.stl is not the file that was asked for: wrong SHA-256$"):
            fetch("things", tmp_path / "cache", source)
        assert contents(tmp_path / "cache/things") == {"a.xml": FILES["a.xml"]}


def test_what_a_break_left_is_finished_the_next_time(tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Handler, "cut", "/empty")
    with pytest.raises(RunError, match=r"cannot download .*/empty: IncompleteRead"):
        fetch("things", tmp_path / "cache", server)
    assert set(contents(tmp_path / "cache/things")) == {"a.xml", "deep/er/b c.stl"}
    monkeypatch.setattr(Handler, "cut", "")
    assert fetch("things", tmp_path / "cache", server)[1] == 1
    assert contents(tmp_path / "cache/things") == FILES


def test_an_old_wrong_file_stays_until_the_right_one_is_whole(tmp_path: Path, published: Path):
    folder, _ = fetch("things", tmp_path / "cache")
    (folder / "a.xml").write_bytes(b"old")
    (published / "a.xml").write_bytes(b"wrong")
    with pytest.raises(RunError, match="wrong SHA-256"):
        fetch("things", tmp_path / "cache")
    assert contents(folder) == {**FILES, "a.xml": b"old"}


@pytest.mark.parametrize(
    ("source", "words"),
    [("SERVER/gone", "File not found"), ("http://127.0.0.1:1", "refused"), ("/no/such/folder", "No such file")],
)
def test_a_source_without_the_files_is_one_line(tmp_path: Path, server: str, source: str, words: str):
    with pytest.raises(RunError, match=words) as error:
        fetch("things", tmp_path / "cache", source.replace("SERVER", server))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "cache/things").exists()


def test_the_command_lists_fetches_and_says_where(
    tmp_path: Path, published: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "mine"))
    main([])
    printed = capsys.readouterr().out
    assert "humanoid-bench: " in printed
    assert "things: three files" in printed
    main(["things"])
    assert f"done: {tmp_path}/mine/things (3 files fetched)\n" in capsys.readouterr().out
    main(["things", "--cache", str(tmp_path / "other")])
    assert f"export SUPPLE_CACHE={tmp_path}/other" in capsys.readouterr().out
    with pytest.raises(UsageError, match="nothing to fetch under 'thing': did you mean 'things'"):
        main(["thing"])


def test_humanoid_bench_comes_from_its_public_repository_and_every_file_has_its_hash():
    collection = COLLECTIONS["humanoid-bench"]
    assert script.urllib.request.Request(collection.source).host == "raw.githubusercontent.com"
    files = collection.files()
    assert "envs/h1_pos_walk.xml" in files
    assert all(len(bytes.fromhex(digest)) == 32 for digest in files.values())
