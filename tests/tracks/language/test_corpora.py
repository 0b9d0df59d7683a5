"""Corpora: the whole text, each part in its place; windows that depend on seed and place alone; one-line errors."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.tracks.language.corpora import (
    Bytes,
    Corpus,
    TokenFile,
    corpus_text,
    draw_windows,
    make_mixture,
    prepare,
    train_bpe,
    validation_windows,
    write_tokens,
)
from supple.tracks.language.corpora.prepare import PIECE
from supple.tracks.language.corpora.published import PUBLISHED
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow

LINES = "".join(f"{i} is a number, and {i * i} its square — naïve?\n" for i in range(300))
BPE = train_bpe([LINES], 300)


def file_of(folder: Path, text: str | bytes, name: str = "text.txt") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / name


def numbers(path: Path, count: int, vocab_size: int = 1000, start: int = 0, fingerprint: str = "f") -> TokenFile:
    """A file of the tokens start, start + 1, …"""
    path.parent.mkdir(parents=True, exist_ok=True)
    tokens = np.arange(start, start + count).astype(np.uint16)
    return write_tokens(path, [tokens[:3], tokens[3:]], "numbers", "bytes", fingerprint, vocab_size)


# -- from text to tokens ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokenizer", ["bytes", "bpe:300"])
def test_training_and_validation_parts_together_are_the_text(tmp_path: Path, tokenizer: str):
    texts = LINES, LINES[::-1]
    files = [file_of(tmp_path, text, f"{i}.txt") for i, text in enumerate(texts)]
    corpus = prepare(files, tmp_path / "corpus", tokenizer, "a text")
    opened, parts = Corpus.open(tmp_path / "corpus"), []
    for part in (opened.train, opened.validation):
        ends = np.flatnonzero(part.tokens == corpus.tokenizer.end)
        assert ends[-1] == len(part) - 1
        parts.append([corpus.tokenizer.decode(t[:-1]) for t in np.split(np.array(part.tokens), ends + 1)[:-1]])
        assert part.about["source"] == "a text"
    for whole, first, second in zip(texts, *parts, strict=True):
        assert first + second == whole
        assert len(second.encode()) == pytest.approx(len(whole.encode()) / 10, rel=0.05)
    assert parts[0][0].endswith("\n")


def test_a_long_text_without_lines_is_cut_between_characters(tmp_path: Path):
    text = "ü" * (PIECE + 51)
    corpus = prepare([file_of(tmp_path, text)], tmp_path / "corpus")
    parts = [bytes(np.array(p.tokens[:-1], np.uint8)).decode() for p in (corpus.train, corpus.validation)]
    assert "".join(parts) == text
    assert len(parts[1]) == pytest.approx(len(text) / 10, rel=0.01)


@given(text=st.text(max_size=50))
@settings(max_examples=25)
def test_a_tokenizer_loses_nothing(text: str):
    assert Bytes().encode(text).tolist() == list(text.encode())
    for tokenizer in (Bytes(), BPE):
        tokens = tokenizer.encode(text)
        assert tokenizer.decode(tokens) == text
        assert tokens.size == 0 or tokens.max() < tokenizer.vocab_size
        assert tokenizer.end not in tokens or "<|endoftext|>" in text or "\0" in text


def test_the_same_text_gives_the_same_tokenizer_and_training_text_alone_makes_it(tmp_path: Path):
    for name, text in (("a", LINES), ("b", LINES), ("c", LINES[:-100] + "z" * 100)):
        prepare([file_of(tmp_path / name, text)], tmp_path / name / "corpus", "bpe:290")
    files = [tmp_path / name / "corpus/tokenizer.json" for name in "abc"]
    assert files[0].read_bytes() == files[1].read_bytes() == files[2].read_bytes()
    assert train_bpe([LINES[:2000]], 290).text != files[0].read_text()


def test_a_second_corpus_takes_the_tokenizer_of_the_first(tmp_path: Path):
    def made(name: str, tokenizer: str, text: str = LINES) -> TokenFile:
        return prepare([file_of(tmp_path, text)], tmp_path / name, tokenizer).train

    first, file = made("a", "bpe:290"), str(tmp_path / "a/tokenizer.json")
    assert len(make_mixture([first, made("b", file, LINES.upper())]).parts) == 2
    for other in (made("c", "bpe:290", LINES.upper()), made("d", "bytes")):
        assert "made with another tokenizer" in refusal(make_mixture, [first, other])
    made("a", "bytes")
    assert Corpus.open(tmp_path / "a").tokenizer.name == "bytes"
    assert not (tmp_path / "a/tokenizer.json").exists()  # of before


# -- windows ----------------------------------------------------------------------------------------------------------


@given(starts=st.lists(st.integers(0, 89), min_size=1, max_size=6), length=st.integers(1, 10))
@settings(max_examples=25)
def test_a_batch_is_the_tokens_from_its_starts_and_those_one_further(
    tmp_path_factory: pytest.TempPathFactory, starts: list[int], length: int
):
    tokens = numbers(tmp_path_factory.mktemp("t") / "a.bin", 100)
    inputs, targets = tokens.batch(torch.tensor(starts), length)
    assert inputs.tolist() == [list(range(s, s + length)) for s in starts]
    assert torch.equal(targets, inputs + 1)


def test_windows_depend_on_seed_task_and_update_alone_and_reach_both_ends(tmp_path: Path):
    source = make_mixture([numbers(tmp_path / "a.bin", 60)])
    torch.manual_seed(0)
    seen = [draw_windows(source, 1, 0, update, 8, 5) for update in range(40)]
    torch.manual_seed(1)
    for update in (39, 3, 0):
        again = draw_windows(source, 1, 0, update, 8, 5)
        assert all(torch.equal(a, b) for a, b in zip(again, seen[update], strict=True))
    for place in ((2, 0, 0), (1, 1, 0), (1, 0, 1)):
        assert not torch.equal(draw_windows(source, *place, 8, 5)[0], seen[0][0])
    firsts = torch.cat([inputs[:, 0] for inputs, _ in seen])
    assert (int(firsts.min()), int(firsts.max())) == (0, 54)
    assert max(int(targets.max()) for _, targets in seen) == 59


def test_several_processes_together_draw_the_windows_of_one(tmp_path: Path):
    source = make_mixture([numbers(tmp_path / "a.bin", 60), numbers(tmp_path / "b.bin", 60, start=500)])
    whole = draw_windows(source, 0, 0, 0, 9, 5)
    for rank in range(2):
        part = draw_windows(source, 0, 0, 0, 9, 5, rank, 2)
        assert all(torch.equal(p, w[rank::2]) for p, w in zip(part, whole, strict=True))


@pytest.mark.parametrize(("shares", "expected"), [(None, 0.25), ([3, 1], 0.75), ([0.5, 0.5], 0.5)])
def test_each_corpus_of_a_mixture_has_its_share(tmp_path: Path, shares: list[float] | None, expected: float):
    source = make_mixture([numbers(tmp_path / "a.bin", 100), numbers(tmp_path / "b.bin", 300, start=500)], shares)
    assert source.shares == pytest.approx((expected, 1 - expected))
    inputs, targets = (
        torch.cat(t) for t in zip(*(draw_windows(source, 0, 0, u, 30, 8) for u in range(40)), strict=True)
    )
    assert float((inputs[:, 0] < 500).float().mean()) == pytest.approx(expected, abs=0.05)
    assert torch.equal(targets, inputs + 1)  # no window goes from one corpus into the other


@given(count=st.integers(1, 12), block=st.integers(1, 30))
@settings(max_examples=25)
def test_validation_windows_are_spread_evenly_and_do_not_overlap(
    tmp_path_factory: pytest.TempPathFactory, count: int, block: int
):
    tokens = numbers(tmp_path_factory.mktemp("t") / "a.bin", 100)
    inputs, targets = validation_windows(tokens, count, block)
    assert len(inputs) == min(count, 99 // block)
    assert torch.equal(targets, inputs + 1)
    firsts = inputs[:, 0]
    gaps = firsts.diff()
    assert int(firsts[0]) == 0
    assert len(gaps) == 0 or (int(gaps.min()) >= block and int(gaps.max() - gaps.min()) <= 1)
    assert len(gaps) == 0 or int(targets.max()) == 99


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_corpus_smaller_than_a_batch_or_a_block_is_refused(tmp_path: Path):
    tokens = numbers(tmp_path / "a.bin", 40)
    source = make_mixture([tokens])
    draw_windows(source, 0, 0, 0, 3, 13)
    assert "a.bin: 40 tokens are too few for one batch" in refusal(draw_windows, source, 0, 0, 0, 4, 10)
    assert "a.bin: 40 tokens are too few for a block" in refusal(draw_windows, source, 0, 0, 0, 1, 40)
    assert "too few for a block of 64" in refusal(validation_windows, tokens, 3, 64)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("a.bin", lambda old: old[:-2], "a.bin: 78 bytes, expected 80: damaged"),
        ("a.bin", lambda old: old[:-2] + b"\1\0", "a.bin: damaged (its checksum does not match)"),
        ("a.json", lambda _: b"[1]", "a.json: does not describe tokens"),
    ],
)
def test_damaged_and_foreign_token_files_are_one_line_that_names_the_file(
    tmp_path: Path, name: str, change: Callable[[bytes], bytes], words: str
):
    file = numbers(tmp_path / "a.bin", 40).path.with_name(name)
    file.write_bytes(change(file.read_bytes()))
    assert words in refusal(TokenFile.open, tmp_path / "a.bin")
    assert "no corpus here" in refusal(Corpus.open, tmp_path)


@pytest.mark.parametrize(
    ("text", "tokenizer", "words"),
    [
        ("", "bytes", "text.txt: 0 bytes are too few"),
        (LINES.encode() + b"\xff\n", "bytes", "is no UTF-8"),
        (LINES, "WRONG.json", "WRONG.json: not a tokenizer"),
        (LINES, "END.json", "vocabulary has no <|endoftext|>"),
    ],
)
def test_text_that_cannot_be_prepared_is_one_line(
    tmp_path: Path, text: str | bytes, tokenizer: str, words: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    file_of(tmp_path, "{}", "WRONG.json")
    file_of(tmp_path, BPE.text.replace("<|endoftext|>", "<|end|>"), "END.json")
    files = [file_of(tmp_path, LINES, "good.txt"), file_of(tmp_path, text)]
    assert words in refusal(prepare, files, tmp_path / "corpus", tokenizer)


def test_text_in_the_cache_is_found_and_what_was_not_fetched_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path))
    assert "`supple fetch kjv` brings it" in refusal(corpus_text, "kjv")
    files = [file_of(tmp_path / "kjv", "x", name) for name in PUBLISHED["kjv"]]
    assert corpus_text("kjv") == files
