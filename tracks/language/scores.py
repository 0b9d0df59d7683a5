"""Scores of an answer, compared with the expected answer, in [0, 1]."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

# Digits, with commas before every three of them or without. A minus right after another number takes away from it.
NUMBER = re.compile(r"(?:(?<![\w)])-)?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<!\d)\.\d+)")
FINAL = "####"  # what stands before the result in answers of GSM8K
ORDERS = 4  # of n-grams in SARI


def score(name: str, answer: str, expected: str, source: str = "") -> float:
    """Return the score of an answer, in [0, 1].

    accuracy: 1 or 0. If the expected answer has a result after "####" (GSM8K), the last number of the answer is
        compared with it. If it begins with a letter alone in its line (TRACE's ScienceQA, before reasons), the first
        letters are compared. Otherwise both texts are, without case, spaces and a final full stop.
    rouge_l: F1 of the longest common subsequence of words (Lin 2004).
    sari: For simplifications of `source`, see `sari`.
    similarity: The same F1 over characters, 2·LCS/(m + n). TRACE uses it as fuzzywuzzy's `ratio`, the Levenshtein
        similarity in which a substitution costs 2.

    Args:
        name: One of these four.
        answer: The text to be scored.
        expected: The right answer.
        source: The text that was to be simplified, for sari.
    """
    scores: dict[str, Callable[[], float]] = {
        "accuracy": lambda: float(_right(answer, expected)),
        "rouge_l": lambda: _overlap(_words(answer), _words(expected)),
        "sari": lambda: sari(source, answer, expected),
        "similarity": lambda: _overlap(answer.strip(), expected.strip()),
    }
    return scores[name]()


def sari(source: str, answer: str, expected: str) -> float:
    """Return SARI (Xu et al. 2016) with one reference.

    It is the mean over n-grams of 1 to 4 words of three numbers: the F1 of the additions, the F1 of what was kept, and
    the precision of the deletions. A number is 1 if there was nothing to do and nothing was done."""
    source_words, given_words, expected_words = _words(source), _words(answer), _words(expected)
    total = 0.0
    for n in range(1, ORDERS + 1):
        s, g, e = (_ngrams(words, n) for words in (source_words, given_words, expected_words))
        keep = _f1(_share(s & g & e, s & g), _share(s & g & e, s & e))
        delete = _share((s - g) - e, s - g)
        added, expected_new = set(g) - set(s), set(e) - set(s)
        right = Counter(added & expected_new)
        add = _f1(_share(right, Counter(added)), _share(right, Counter(expected_new)))
        total += (keep + delete + add) / 3
    return total / ORDERS


def _share(part: Counter[Any], whole: Counter[Any]) -> float:
    """Return the mean over the n-grams of `whole` of the share of each that is in `part`; 1 without n-grams."""
    return sum(part[gram] / count for gram, count in whole.items()) / len(whole) if whole else 1.0


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def _right(answer: str, expected: str) -> bool:
    if FINAL in expected:
        numbers, results = _numbers(answer), _numbers(expected.rpartition(FINAL)[2])
        return bool(numbers) and bool(results) and numbers[-1] == results[-1]
    letter, below, _ = expected.strip().partition("\n")
    if below and len(letter) == 1:
        return answer.strip()[:1] == letter
    return _normal(answer) == _normal(expected)


def _numbers(text: str) -> list[float]:
    """Return all numbers of a text; −$5 is −5."""
    return [float(number.replace(",", "")) for number in NUMBER.findall(text.replace("$", "").replace("−", "-"))]


def _normal(text: str) -> str:
    return " ".join(text.split()).removesuffix(".").casefold()


def _overlap(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Return 2·LCS/(m + n), or 1 for two empty sequences."""
    size = len(first) + len(second)
    return 2 * longest_common_subsequence(first, second) / size if size else 1.0


def longest_common_subsequence(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the length of the longest common subsequence.

    A column of the usual table is one integer with one bit per row, as in Hyyrö (2004), because the table would take
    seconds for texts of several thousand characters."""
    places: dict[Hashable, int] = {}
    for i, item in enumerate(first):
        places[item] = places.get(item, 0) | 1 << i
    whole = column = (1 << len(first)) - 1
    for item in second:
        matches = column & places.get(item, 0)
        column = ((column + matches) | (column - matches)) & whole
    return len(first) - column.bit_count()
