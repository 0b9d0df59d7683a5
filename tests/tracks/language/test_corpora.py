"""Corpora: the whole text, each part in its place; windows that depend on seed and place alone; one-line errors."""

import sys
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
    read_tokenizer,
    train_bpe,
    validation_windows,
    write_tokens,
)
from supple.tracks.language.corpora.prepare import PIECE
from supple.tracks.language.corpora.published import PUBLISHED
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow

LINES = "".join(f"{i} is a number, and {i * i} its square — naïve?\n" for i in range(300))


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
    files = [file_of(tmp_path, LINES), file_of(tmp_path, LINES[::-1], "other.txt")]
    corpus = prepare(files, tmp_path / "corpus", tokenizer, "a text")
    reopened = Corpus.open(tmp_path / "corpus")
    end = corpus.tokenizer.end
    texts = []
    for part in (reopened.train, reopened.validation):
        ends = np.flatnonzero(part.tokens == end)
        assert len(ends) == 2
        assert ends[-1] == len(part) - 1
        texts.append([corpus.tokenizer.decode(t) for t in np.split(np.array(part.tokens), ends + 1)[:2]])
        assert part.about.source == "a text"
    for i, whole in enumerate((LINES, LINES[::-1])):
        first, second = texts[0][i].strip("\0").replace("<|endoftext|>", ""), texts[1][i].strip("\0")
        second = second.replace("<|endoftext|>", "")
        assert first + second == whole
        assert first.endswith("\n") or i == 1
        assert len(second.encode()) == pytest.approx(len(whole.encode()) / 10, rel=0.05)


def test_a_long_text_without_lines_is_cut_between_characters(tmp_path: Path):
    text = "ü" * (PIECE + 51)
    corpus = prepare([file_of(tmp_path, text)], tmp_path / "corpus")
    parts = [bytes(np.array(p.tokens[:-1], np.uint8)).decode() for p in (corpus.train, corpus.validation)]
    assert "".join(parts) == text
    assert len(parts[1]) == pytest.approx(len(text) / 10, rel=0.01)


def test_the_byte_tokenizer_encodes_utf_8():
    assert Bytes().encode("aé").tolist() == [97, 0xC3, 0xA9]
    assert Bytes().decode([97, 0xC3, 0xA9]) == "aé"


@given(text=st.text(max_size=50))
@settings(max_examples=25)
def test_a_trained_tokenizer_loses_nothing(text: str):
    tokenizer = train_bpe([LINES], 300)
    tokens = tokenizer.encode(text)
    assert tokenizer.decode(tokens) == text
    assert tokens.size == 0 or tokens.max() < tokenizer.vocab_size
    assert tokenizer.end not in tokens or "<|endoftext|>" in text


def test_the_same_text_gives_the_same_tokenizer_and_training_text_alone_makes_it(tmp_path: Path):
    for name, text in (("a", LINES), ("b", LINES), ("c", LINES[:-100] + "z" * 100)):
        prepare([file_of(tmp_path / name, text)], tmp_path / name / "corpus", "bpe:290")
    files = [tmp_path / name / "corpus/tokenizer.json" for name in "abc"]
    assert files[0].read_bytes() == files[1].read_bytes() == files[2].read_bytes()
    assert train_bpe([LINES[:2000]], 290).text != files[0].read_text()


def test_a_second_corpus_takes_the_tokenizer_of_the_first(tmp_path: Path):
    first = prepare([file_of(tmp_path, LINES)], tmp_path / "a", "bpe:290")
    second = prepare([file_of(tmp_path, LINES.upper(), "b.txt")], tmp_path / "b", str(tmp_path / "a/tokenizer.json"))
    assert make_mixture([first.train, second.train]).parts == (first.train, second.train)
    other = prepare([file_of(tmp_path, LINES.upper(), "b.txt")], tmp_path / "c", "bpe:290")
    plain = prepare([file_of(tmp_path, LINES)], tmp_path / "d", "bytes")
    for wrong, words in ((other, "made with another 'bpe:290'"), (plain, "made with 'bytes' and not 'bpe:290'")):
        assert words in refusal(make_mixture, [first.train, wrong.train])


def test_preparing_again_leaves_no_tokenizer_of_before(tmp_path: Path):
    prepare([file_of(tmp_path, LINES)], tmp_path / "a", "bpe:290")
    assert Corpus.open(prepare([file_of(tmp_path, LINES)], tmp_path / "a").folder).tokenizer.name == "bytes"
    assert not (tmp_path / "a/tokenizer.json").exists()


# -- windows ----------------------------------------------------------------------------------------------------------


@given(starts=st.lists(st.integers(0, 89), min_size=1, max_size=6), length=st.integers(1, 10))
@settings(max_examples=25)
def test_a_batch_is_the_tokens_from_its_starts_and_those_one_further(
    tmp_path_factory: pytest.TempPathFactory, starts: list[int], length: int
):
    tokens = numbers(tmp_path_factory.mktemp("t") / "a.bin", 100)
    inputs, targets = tokens.batch(torch.tensor(starts), length)
    assert inputs.dtype == targets.dtype == torch.int64
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


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda tokens: draw_windows(make_mixture([tokens]), 0, 0, 0, 4, 10), "for one batch, which has 4 × 10"),
        (lambda tokens: draw_windows(make_mixture([tokens]), 0, 0, 0, 1, 40), "too few for a block of 40"),
        (lambda tokens: validation_windows(tokens, 3, 64), "too few for a block of 64"),
    ],
)
def test_a_corpus_smaller_than_a_batch_or_a_block_is_refused(
    tmp_path: Path, call: Callable[[TokenFile], object], words: str
):
    tokens = numbers(tmp_path / "a.bin", 40)
    draw_windows(make_mixture([tokens]), 0, 0, 0, 3, 13)
    assert words in refusal(call, tokens)
    assert "a.bin: 40 tokens are" in refusal(call, tokens)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("a.bin", lambda old: old[:-2], "a.bin: 78 bytes, expected 80: damaged"),
        ("a.bin", lambda old: old[:-2] + b"\1\0", "a.bin: damaged (its checksum does not match)"),
        ("a.bin", None, "a.bin: No such file"),
        ("a.json", lambda _: b"[1]", "a.json: does not describe tokens"),
        ("a.json", lambda _: b"{", "a.json: not JSON"),
        ("a.json", None, "a.json: No such file"),
    ],
)
def test_damaged_and_foreign_token_files_are_one_line_that_names_the_file(
    tmp_path: Path, name: str, change: Callable[[bytes], bytes] | None, words: str
):
    file = numbers(tmp_path / "a.bin", 40).path.with_name(name)
    content = file.read_bytes()
    file.unlink()
    if change:
        file.write_bytes(change(content))
    assert words in refusal(TokenFile.open, tmp_path / "a.bin")
    assert "no corpus here" in refusal(Corpus.open, tmp_path)


@pytest.mark.parametrize(
    ("text", "tokenizer", "words"),
    [
        ("", "bytes", "text.txt: 0 bytes are too few"),
        (LINES.encode() + b"\xff\n", "bytes", "is no UTF-8"),
        (None, "bytes", "text.txt: No such file"),
        (LINES, "words", "unknown tokenizer 'words'"),
        (LINES, "bpe:100", "a vocabulary has 257 to 65,536"),
        (LINES, "no.json", "no.json: cannot be read"),
    ],
)
def test_text_that_cannot_be_prepared_is_one_line(tmp_path: Path, text: str | bytes | None, tokenizer: str, words: str):
    file = tmp_path / "text.txt" if text is None else file_of(tmp_path, text)
    assert words in refusal(prepare, [file_of(tmp_path, LINES, "good.txt"), file], tmp_path / "corpus", tokenizer)


def test_files_that_are_no_tokenizers_are_refused_by_name(tmp_path: Path):
    text = train_bpe([LINES], 290).text.replace("<|endoftext|>", "<|end|>")
    assert "wrong.json: not a tokenizer" in refusal(read_tokenizer, file_of(tmp_path, "{}", "wrong.json"))
    assert "vocabulary has no <|endoftext|>" in refusal(read_tokenizer, file_of(tmp_path, text, "other.json"))


def test_without_the_library_a_trained_tokenizer_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert "pip install 'supple[language]'" in refusal(train_bpe, [LINES], 300)


def test_text_in_the_cache_is_found_and_what_was_not_fetched_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path))
    assert "`supple fetch kjv` brings it" in refusal(corpus_text, "kjv")
    files = [file_of(tmp_path / "kjv", "x", name) for name in PUBLISHED["kjv"]]
    assert corpus_text("kjv") == files
    assert "unknown corpus 'browm': did you mean 'brown'" in refusal(corpus_text, "browm")
