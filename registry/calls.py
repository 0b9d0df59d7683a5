"""The text form of a call, `name(parameter=value, …)`, as typed on the command line.

    call      = word [ "(" [ word "=" value { "," word "=" value } ] ")" ]
    value     = scalar | "[" [ scalar { "," scalar } ] "]"
    scalar    = number | "true" | "false" | "none" | word | string | call
    word      = a letter or "_", then letters, digits and any of _ . / + -
    string    = in single or double quotes; a backslash takes the next character literally

A call as a value stands for its text: swap(activation=leaky_relu(negative_slope=0.6)).
Blanks are allowed around every token. `str` of what was parsed gives a text that parses to the same.
"""

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

Scalar = bool | int | float | str | None
Value = Scalar | tuple[Scalar, ...]
T = TypeVar("T")

_DIGITS = r"\d+(?:_\d+)*"
WORD = r"[A-Za-z_][\w./+#-]*"
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<number> [+-]? (?: {_DIGITS} (?: \. (?:{_DIGITS})? )? | \.{_DIGITS} ) (?: [eE][+-]?{_DIGITS} )? )
          (?![\w.])
    | (?P<word> {WORD} )
    | (?P<string> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
    | (?P<mark> [<>]=? | [()\[\],=@:] )
    | (?P<end> \Z )
    | (?P<bad> [+-]?\.?\d[\w.]* | . )
    )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_KEYWORDS: dict[str, bool | None] = {"true": True, "false": False, "none": None}


class CallSyntaxError(ValueError):
    """A text that does not follow the grammar, with the position of the error.

    Args:
        problem: What is wrong, as the beginning of the message.
        text: The whole text.
        position: Index of the offending character; `len(text)` if the text ends too early.
        expected: What would be right there, or "".

    Attributes:
        text: The whole text.
        position: Index of the offending character; `len(text)` if the text ends too early.
    """

    def __init__(self, problem: str, text: str, position: int, expected: str = "") -> None:
        tail = f": expected {expected}" if expected else ""
        super().__init__(f"{problem} at character {position + 1} of {text!r}{tail}")
        self.text = text
        self.position = position


@dataclass(frozen=True)
class Call:
    """`name(key=value, …)`; `position` is where the name stands in the text it was read from."""

    name: str
    params: Mapping[str, Value] = field(default_factory=dict)
    position: int = field(default=0, compare=False)

    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}({','.join(f'{k}={format_value(v)}' for k, v in self.params.items())})"


def parse_call(text: str) -> Call:
    """Parse `name` or `name(key=value, …)`. Raises CallSyntaxError."""
    parser = Parser(text)
    return parser.to_the_end(parser.call())


def scalar_of(text: str) -> Scalar:
    """Return the number, the bool or None that a text denotes, or else the text."""
    if text.lower() in _KEYWORDS:
        return _KEYWORDS[text.lower()]
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def format_value(value: Value) -> str:
    """Return the text of one parameter value. Raises ValueError for values without one (inf, objects)."""
    if isinstance(value, tuple):
        return f"[{','.join(map(format_value, value))}]"
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        bare = re.fullmatch(WORD, value, re.ASCII) and value.lower() not in _KEYWORDS
        return value if bare else "'" + re.sub(r"(['\\])", r"\\\1", value) + "'"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    raise ValueError(f"{value!r} has no text form: use a finite number, true, false, none, a text or a tuple")


@dataclass(frozen=True)
class Token:
    kind: str  # a group of _TOKEN
    text: str
    position: int


class Parser:
    """Recursive descent over the tokens: one method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.index = 0
        self.tokens = [
            Token(str(match.lastgroup), match[match.lastgroup], match.start(match.lastgroup))
            for match in _TOKEN.finditer(text)
            if match.lastgroup  # always: the last two groups catch what the others leave
        ]

    # The tools of the rules.

    @property
    def next(self) -> Token:
        return self.tokens[self.index]

    def fail(self, problem: str, token: Token) -> NoReturn:
        raise CallSyntaxError(problem, self.text, token.position)

    def unexpected(self, expected: str) -> NoReturn:
        token = self.next
        problem = "unexpected end" if token.kind == "end" else f"unexpected {token.text!r}"
        raise CallSyntaxError(problem, self.text, token.position, expected)

    def take(self, kind: str, expected: str) -> Token:
        token = self.next
        if token.kind != kind:
            self.unexpected(expected)
        self.index += 1
        return token

    def accept(self, mark: str) -> bool:
        is_next = self.next.kind == "mark" and self.next.text == mark
        self.index += is_next
        return is_next

    def require(self, mark: str, expected: str | None = None) -> None:
        if not self.accept(mark):
            self.unexpected(expected or repr(mark))

    def to_the_end(self, result: T) -> T:
        if self.next.kind != "end":
            self.unexpected("the end")
        return result

    # The rules.

    def call(self) -> Call:
        name = self.take("word", "a name")
        params: dict[str, Value] = {}
        if self.accept("(") and not self.accept(")"):
            self.param(params)
            while self.accept(","):
                self.param(params)
            self.require(")", "',' or ')'")
        return Call(name.text, params, name.position)

    def param(self, params: dict[str, Value]) -> None:
        key = self.take("word", "a parameter name")
        if key.text in params:
            self.fail(f"parameter {key.text!r} given twice", key)
        self.require("=")
        params[key.text] = self.value()

    def value(self) -> Value:
        if not self.accept("["):
            return self.scalar()
        items: list[Scalar] = []
        if not self.accept("]"):
            items.append(self.scalar())
            while self.accept(","):
                items.append(self.scalar())
            self.require("]", "',' or ']'")
        return tuple(items)

    def scalar(self) -> Scalar:
        token = self.next
        if token.kind == "number":
            return self.number("a number")
        if token.kind == "string":
            self.index += 1
            return re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL)
        if token.kind == "word" and self.tokens[self.index + 1].text == "(":
            return str(self.call())
        word = self.take("word", "a value").text
        return word if word.lower() not in _KEYWORDS else scalar_of(word)

    def number(self, expected: str) -> int | float:
        token = self.take("number", expected)
        value = scalar_of(token.text)  # a float, if int() refuses thousands of digits
        if not isinstance(value, int | float) or abs(value) >= (math.inf if isinstance(value, float) else 2**63):
            self.fail("number too large", token)
        return value
