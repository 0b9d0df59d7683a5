"""Functions in C are compiled once, and are missing where they cannot be compiled."""

from pathlib import Path

import pytest

from supple.registry import native


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file in C, for a cache of its own."""
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    native.load_native.cache_clear()
    file = tmp_path / "double.c"
    file.write_text("int doubled(int x) { return 2 * x; }")
    return file


def test_what_was_compiled_is_kept_for_processes_without_a_compiler(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = native.load_native(source, "-O2")
    assert library is not None
    assert library.doubled(21) == 42
    native.load_native.cache_clear()
    monkeypatch.setenv("PATH", "")
    assert native.load_native(source, "-O2") is not None
    assert native.load_native(source, "-O1") is None


@pytest.mark.parametrize("text", ["int doubled(int x) { return y; }", "not C"])
def test_what_cannot_be_compiled_is_missing(source: Path, text: str) -> None:
    source.write_text(text)
    assert native.load_native(source) is None
    assert not list((source.parent / "cache").rglob("*.so"))


def test_another_source_is_compiled_again(source: Path) -> None:
    native.load_native(source)
    native.load_native.cache_clear()
    source.write_text("int doubled(int x) { return 3 * x; }")
    library = native.load_native(source)
    assert library is not None
    assert library.doubled(5) == 15
