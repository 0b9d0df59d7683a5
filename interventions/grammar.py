"""The text form of schedules and hooks on the command line. The form of calls is in `registry.calls`.

    hook      = "none" | [ learner "/" ] call [ "@" schedule ]
    schedule  = amount | "every" ":" amount | ( "update" | "updates" ) ":" number | "task" [ ":" number ] | "start"
              | "when" ":" word ( ">" | "<" | ">=" | "<=" ) number { "," ( "clear" "=" number | "least" "=" amount ) }
    amount    = number: with a point and no exponent (0.5) a fraction of the planned total,
                otherwise (250_000, 1e6, 2.5e6) environment steps
    learner   = a word without "/"

Blanks are allowed around every token, but not inside `learner/name`. `str` of a parsed value returns a text that
parses to the same value.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from supple.registry import Call, CallSyntaxError, did_you_mean
from supple.registry.calls import WORD, Parser

from .schedule import OPERATORS, At, AtStart, AtTask, AtUpdate, Every, Schedule, When

_SCHEDULES = ("every", "update", "updates", "task", "start", "when")


@dataclass(frozen=True)
class HookText:
    """A parsed hook: an intervention, its schedule (None: continuously, from the start) and its learner (None: all)."""

    call: Call | None = None
    schedule: Schedule | None = None
    learner: str | None = None

    def problem(self, total: int, start: int = 0, switches: int | None = None) -> str | None:
        """Return one line if the schedule never fires in such a run (see `Schedule.problem`), else None."""
        problem = self.schedule.problem(total, start, switches) if self.schedule else None
        return f"{self} {problem}" if problem else None

    def __str__(self) -> str:
        prefix = f"{self.learner}/" if self.learner else ""
        return f"{prefix}{self.call or 'none'}{f'@{self.schedule}' if self.schedule else ''}"


def parse_hook_text(text: str) -> HookText:
    """Parse `name`, `learner/name(key=value, …)@schedule` or `none`. Raises CallSyntaxError.

    Only the form is checked here. The registry checks whether the name and its parameters exist.
    """
    parser = _Parser(text)
    return parser.to_the_end(parser.hook())


class _Parser(Parser):
    """The rules of hooks and schedules, in addition to those of calls."""

    def build(self, schedule: Callable[..., Schedule], parse: Callable[[], tuple[Any, ...]]) -> Schedule:
        """Let a schedule check its own values, and report the position of the first if it refuses."""
        token, values = self.next, parse()
        try:
            return schedule(*values)
        except ValueError as error:
            self.fail(str(error), token)

    def hook(self) -> HookText:
        first, call = self.next, self.call()
        *learner, name = call.name.split("/", 1)  # the tokenizer returns `learner/name` as a single word
        if learner:
            position = call.position + len(learner[0]) + 1
            if not re.fullmatch(WORD, name, re.ASCII):
                raise CallSyntaxError(f"no name after '{learner[0]}/'", self.text, position, "an intervention")
            call = replace(call, name=name, position=position)
        if name != "none":
            return HookText(call, self.schedule() if self.accept("@") else None, *learner)
        if learner or call.params:
            self.fail("'none' takes no parameters and no learner", first)
        return HookText()

    def amount(self) -> int | float:
        """Return steps as an int, or a fraction of the total as a float."""
        token = self.next
        value = self.number("a step (250_000) or a fraction of the run (0.5)")
        exponent = "e" in token.text.lower()
        if "." in token.text and not exponent:
            return float(value)
        if value != int(value):
            self.fail("a step is a whole number, and a fraction is written without an exponent", token)
        return int(value)

    def schedule(self) -> Schedule:
        token = self.next
        if token.kind == "number":
            return self.build(At, lambda: (self.amount(),))
        word = self.take("word", f"a step, a fraction of the run, {', '.join(_SCHEDULES)}").text
        if word == "every":
            self.require(":")
            return self.build(Every, lambda: (self.amount(),))
        if word in ("update", "updates"):
            self.require(":")
            return self.build(AtUpdate, lambda: (self.amount(), word == "updates"))
        if word == "task":
            if not self.accept(":"):
                return AtTask()
            return self.build(AtTask, lambda: (self.number("the number of a task switch"),))
        if word == "start":
            return AtStart()
        if word == "when":
            self.require(":")
            return self.build(When, self.condition)
        known = f"known: a step, a fraction, {', '.join(_SCHEDULES)}"
        self.fail(f"unknown schedule {word!r}{did_you_mean(word, _SCHEDULES)} ({known})", token)

    def condition(self) -> tuple[Any, ...]:
        """Parse the attributes of a `When`: the condition, the value that clears it, the distance between firings."""
        metric = self.take("word", "the name of a metric").text
        op = self.next.text
        if op not in OPERATORS or self.next.kind != "mark":
            self.unexpected(f"one of {' '.join(OPERATORS)}")
        self.index += 1
        threshold = float(self.number("a threshold"))
        options: dict[str, Any] = {}
        while self.accept(","):
            token = self.next
            name = self.take("word", "clear or least").text
            if name not in ("clear", "least") or name in options:
                problem = "given twice" if name in options else f"unknown{did_you_mean(name, ['clear', 'least'])}"
                self.fail(f"{name!r} of a condition: {problem} (known: clear, least)", token)
            self.require("=")
            options[name] = float(self.number("a value")) if name == "clear" else self.amount()
        return metric, op, threshold, options.get("clear"), options.get("least", 0)
