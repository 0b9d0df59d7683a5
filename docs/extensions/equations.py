"""Equations of docstrings, which are written in Unicode, as LaTeX.

`latex` translates symbol by symbol. It returns None for a line with anything that it does not know, which is then shown
as it is written: no equation is guessed.
"""

import re
import unicodedata

from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml

OPEN, CLOSE = "\ue000\ue001"  # stand for the brackets of a root
SYMBOLS = {
    **{"←": r"\leftarrow ", "→": r"\rightarrow ", "·": r"\cdot ", "∘": r"\circ ", "⊙": r"\odot ", "×": r"\times "},
    **{"∂": r"\partial ", "∇": r"\nabla ", "‖": r"\Vert ", "⟨": r"\langle ", "⟩": r"\rangle ", "−": "-", "-": "-"},
    **{"≤": r"\leq ", "≥": r"\geq ", "≠": r"\neq ", "≈": r"\approx ", "∈": r"\in ", "~": r"\sim ", "±": r"\pm "},
    **{
        "…": r"\ldots ",
        "∞": r"\infty ",
        "Σ": r"\sum ",
        "Π": r"\prod ",
        "|": r"\vert ",
        "⊥": r"\perp ",
        "ℝ": r"\mathbb{R}",
        "′": "'",
        "*": r"^{\ast}",
        OPEN: r"\sqrt{",
        CLOSE: "}",
    },
    **{each: each for each in "+=/()[],.<>:;"},
}
GREEK = {
    **dict(zip("αβγδεζη", ["alpha", "beta", "gamma", "delta", "varepsilon", "zeta", "eta"], strict=True)),
    **dict(zip("θκλμν", ["theta", "kappa", "lambda", "mu", "nu"], strict=True)),
    **dict(zip("ξπρστφχψωϕ", ["xi", "pi", "rho", "sigma", "tau", "varphi", "chi", "psi", "omega", "phi"], strict=True)),
    **dict(zip("ΓΔΘΛΞΦΨΩ", ["Gamma", "Delta", "Theta", "Lambda", "Xi", "Phi", "Psi", "Omega"], strict=True)),
}
RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵀᵗⁱⁿᵏ", "0123456789+-Ttink", strict=True))
LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋ᵢⱼₖₗₜₙ", "0123456789+-ijkltn", strict=True))
ACCENTS = {"\u0302": "hat", "\u0304": "bar", "\u0303": "tilde", "\u0307": "dot"}
TOKEN = re.compile(
    rf"(?P<gap> {{2,}})|(?P<space> )|(?P<accented>[^\W\d_][{''.join(ACCENTS)}])"
    rf"|(?P<raised>[{''.join(RAISED)}]+)|(?P<lowered>[{''.join(LOWERED)}]+)"
    r"|_(?P<below>\w+(?:,\w+)*)|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<word>[A-Za-z]{2,})|(?P<letter>[A-Za-z])|(?P<other>.)"
)  # fmt: skip


def latex(line: str) -> str | None:
    """Return an equation as LaTeX, or None if a symbol is unknown or its form is not clear."""
    try:
        text = _translated(_roots(unicodedata.normalize("NFD", line.strip()).rstrip()))
        tex2mathml(text)
    except (MathError, KeyError, ValueError):
        return None
    return text


def _roots(line: str) -> str:
    """Return the line with every √(…) marked by braces. Raises ValueError for a root of anything else."""
    while (start := line.find("√")) >= 0:
        depth, end = 0, start + 1
        if line[end : end + 1] != "(":
            raise ValueError("a root without brackets")
        while True:
            depth += {"(": 1, ")": -1}.get(line[end], 0)
            end += 1
            if depth == 0:
                break
            if end >= len(line):
                raise ValueError("a bracket is not closed")
        line = f"{line[:start]}{OPEN}{line[start + 2 : end - 1]}{CLOSE}{line[end:]}"
    return line


def _translated(line: str) -> str:
    return "".join(_symbol(line, token, str(token.lastgroup)) for token in TOKEN.finditer(line))


def _symbol(line: str, token: re.Match[str], sort: str) -> str:
    """Return the LaTeX of one token. Raises KeyError for an unknown symbol."""
    text = token[sort]
    if sort in ("number", "letter"):
        return text
    if sort == "word":
        return rf"\mathrm{{{text}}}"
    if sort == "gap":
        return r"\qquad "
    if sort == "space":
        return r"\ " if _between_words(line, token) else " "
    if sort == "accented":
        return rf"\{ACCENTS[text[1]]}{{{_letter(text[0])}}}"
    if sort == "raised":
        return f"^{{{''.join(RAISED[each] for each in text)}}}"
    if sort == "lowered":
        return f"_{{{''.join(LOWERED[each] for each in text)}}}"
    return _below(text) if sort == "below" else SYMBOLS.get(text) or _letter(text)


def _between_words(line: str, token: re.Match[str]) -> bool:
    """Return whether a space stands next to a word, which would otherwise touch its neighbour."""
    return bool(re.search(r"[A-Za-z]{2}$", line[: token.start()]) or re.match(r"[A-Za-z]{2}", line[token.end() :]))


def _letter(text: str) -> str:
    return text if text.isascii() and text.isalpha() else rf"\{GREEK[text]} "


def _below(text: str) -> str:
    parts = [part if len(part) == 1 else rf"\mathrm{{{part}}}" for part in text.split(",")]
    return f"_{{{','.join(part if part.isascii() else _letter(part) for part in parts)}}}"
