"""The text form of calls, schedules and hooks, as typed on the command line.

    hook      = "none" | [ learner "/" ] call [ "@" schedule ]
    call      = word [ "(" [ word "=" value { "," word "=" value } ] ")" ]
    value     = scalar | "[" [ scalar { "," scalar } ] "]"
    scalar    = number | "true" | "false" | "none" | word | string | call
    schedule  = amount | "every" ":" amount | "task" [ ":" number ] | "start"
              | "when" ":" word ( ">" | "<" | ">=" | "<=" ) number
    amount    = number: with a point and no exponent (0.5) a fraction of the planned total,
                otherwise (250_000, 1e6, 2.5e6) agent–environment steps
    word      = a letter or "_", then letters, digits and any of _ . / + -
    learner   = a word without "/"
    string    = in single or double quotes; a backslash takes the next character literally

A call as a value stands for its text: swap(activation=leaky_relu(negative_slope=0.6)).
Blanks are allowed around every token, but not inside `learner/name`. `str` of what was parsed gives a text that
parses to the same.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeVar

from .registry import did_you_mean
from .schedule import OPERATORS, AtFraction, AtStart, AtStep, AtTask, Every, Schedule, When

Scalar = bool | int | float | str | None
Value = Scalar | tuple[Scalar, ...]
S = TypeVar("S")

_DIGITS = r"\d+(?:_\d+)*"
_WORD = r"[A-Za-z_][\w./+-]*"
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<number> [+-]? (?: {_DIGITS} (?: \. (?:{_DIGITS})? )? | \.{_DIGITS} ) (?: [eE][+-]?{_DIGITS} )? )
          (?![\w.])
    | (?P<word> {_WORD} )
    | (?P<string> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
    | (?P<mark> [<>]=? | [()\[\],=@:] )
    | (?P<end> \Z )
    | (?P<bad> [+-]?\.?\d[\w.]* | . )
    )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_KEYWORDS: dict[str, bool | None] = {"true": True, "false": False, "none": None}
_SCHEDULES = ("every", "task", "start", "when")


class HookSyntaxError(ValueError):
    """A text that the grammar does not know, with the place where it goes wrong.

    Attributes:
        text: the whole text.
        position: index of the offending character; `len(text)` if the text ends too early.
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


@dataclass(frozen=True)
class HookText:
    """A parsed hook: what to do (None for `none`), when (None: from the start, continuously), and to which
    learner (None: to all)."""

    call: Call | None = None
    schedule: Schedule | None = None
    learner: str | None = None

    def problem(self, total: int, start: int = 0, switches: int | None = None) -> str | None:
        """One line if the schedule never fires in such a run (see `Schedule.problem`), else None."""
        problem = self.schedule.problem(total, start, switches) if self.schedule else None
        return f"{self} {problem}" if problem else None

    def __str__(self) -> str:
        prefix = f"{self.learner}/" if self.learner else ""
        return f"{prefix}{self.call or 'none'}{f'@{self.schedule}' if self.schedule else ''}"


def parse_call(text: str) -> Call:
    """Read `name` or `name(key=value, …)`; raises HookSyntaxError."""
    parser = _Parser(text)
    return parser.to_the_end(parser.call())


def parse_schedule(text: str) -> Schedule:
    """Read a schedule, written without its `@` (`0.5`, `every:1000`, …); raises HookSyntaxError."""
    parser = _Parser(text)
    return parser.to_the_end(parser.schedule())


def parse_hook_text(text: str) -> HookText:
    """Read `name`, `learner/name(key=value, …)@schedule` or `none`; raises HookSyntaxError.

    Only the form is checked here: whether the name and its parameters exist is for the registry to say.
    """
    parser = _Parser(text)
    return parser.to_the_end(parser.hook())


def format_value(value: Value) -> str:
    """The text of one parameter value; ValueError for what the grammar cannot write (inf, objects)."""
    if isinstance(value, tuple):
        return f"[{','.join(map(format_value, value))}]"
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        bare = re.fullmatch(_WORD, value, re.ASCII) and value.lower() not in _KEYWORDS
        return value if bare else "'" + re.sub(r"(['\\])", r"\\\1", value) + "'"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    raise ValueError(f"{value!r} has no text form: use a finite number, true, false, none, a text or a tuple")


@dataclass(frozen=True)
class _Token:
    kind: str  # a group of _TOKEN
    text: str
    position: int


class _Parser:
    """Recursive descent over the tokens: one method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.index = 0
        self.tokens = [
            _Token(str(match.lastgroup), match[match.lastgroup], match.start(match.lastgroup))
            for match in _TOKEN.finditer(text)
            if match.lastgroup  # always: the last two groups catch what the others leave
        ]

    # The tools of the rules.

    @property
    def next(self) -> _Token:
        return self.tokens[self.index]

    def fail(self, problem: str, token: _Token) -> NoReturn:
        raise HookSyntaxError(problem, self.text, token.position)

    def unexpected(self, expected: str) -> NoReturn:
        token = self.next
        problem = "unexpected end" if token.kind == "end" else f"unexpected {token.text!r}"
        if token.kind == "bad" and token.text in ("'", '"'):
            problem = "unclosed quote"
        elif token.kind == "bad" and any(map(str.isdigit, token.text)):
            problem = f"malformed number {token.text!r}"
        raise HookSyntaxError(problem, self.text, token.position, expected)

    def take(self, kind: str, expected: str) -> _Token:
        token = self.next
        if token.kind != kind:
            self.unexpected(expected)
        self.index += 1
        return token

    def accept(self, mark: str) -> bool:
        found = self.next.kind == "mark" and self.next.text == mark
        self.index += found
        return found

    def require(self, mark: str, expected: str | None = None) -> None:
        if not self.accept(mark):
            self.unexpected(expected or repr(mark))

    def build(self, schedule: Callable[[Any], S], value: int | float, token: _Token) -> S:
        """Let a schedule check its own value, and point at the token if it refuses."""
        try:
            return schedule(value)
        except ValueError as error:
            self.fail(str(error), token)

    def to_the_end(self, result: S) -> S:
        if self.next.kind != "end":
            self.unexpected("the end")
        return result

    # The rules.

    def hook(self) -> HookText:
        first = self.next
        learner, call = self.addressed(self.call())
        if call.name != "none":
            return HookText(call, self.schedule() if self.accept("@") else None, learner)
        if learner:
            self.fail("'none' is for no learner", first)
        if call.params:
            self.fail("'none' takes no parameters", first)
        return HookText()

    def addressed(self, call: Call) -> tuple[str | None, Call]:
        """Split `learner/name`, which is a single word to the tokens."""
        learner, slash, name = call.name.partition("/")
        if not slash:
            return None, call
        position = call.position + len(learner) + 1
        if not re.fullmatch(_WORD, name, re.ASCII):
            raise HookSyntaxError(f"no name after '{learner}/'", self.text, position, "an intervention")
        return learner, replace(call, name=name, position=position)

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
        return _KEYWORDS.get(word.lower(), word)

    def number(self, expected: str) -> int | float:
        token = self.take("number", expected)
        is_float = any(mark in token.text for mark in ".eE")
        try:
            value = float(token.text) if is_float else int(token.text)
        except ValueError:  # int() refuses thousands of digits
            value = math.inf
        if abs(value) >= (math.inf if is_float else 2**63):
            self.fail("number too large", token)
        return value

    def amount(self) -> int | float:
        """Steps as an int, a fraction of the total as a float."""
        token = self.next
        value = self.number("a step (250_000) or a fraction of the run (0.5)")
        exponent = "e" in token.text.lower()
        if "." in token.text and not exponent:
            return float(value)
        if value != int(value):
            self.fail("a step is a whole number, and a fraction is written without an exponent", token)
        if value >= 2**63:
            self.fail("number too large", token)
        return int(value)

    def schedule(self) -> Schedule:
        token = self.next
        if token.kind == "number":
            amount = self.amount()
            at: Callable[[Any], Schedule] = AtStep if isinstance(amount, int) else AtFraction
            return self.build(at, amount, token)
        word = self.take("word", f"a step, a fraction of the run, {', '.join(_SCHEDULES)}").text
        if word == "every":
            self.require(":")
            token = self.next
            return self.build(Every, self.amount(), token)
        if word == "task":
            if not self.accept(":"):
                return AtTask()
            token = self.next
            return self.build(AtTask, self.number("the number of a task switch"), token)
        if word == "start":
            return AtStart()
        if word == "when":
            return self.condition()
        known = f"known: a step, a fraction, {', '.join(_SCHEDULES)}"
        self.fail(f"unknown schedule {word!r}{did_you_mean(word, _SCHEDULES)} ({known})", token)

    def condition(self) -> When:
        self.require(":")
        metric = self.take("word", "the name of a metric").text
        op = self.next.text
        if op not in OPERATORS or self.next.kind != "mark":
            self.unexpected(f"one of {' '.join(OPERATORS)}")
        self.index += 1
        return When(metric, op, float(self.number("a threshold")))
