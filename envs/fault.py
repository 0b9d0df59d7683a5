"""What is said of episodes and of environments that misbehave: a message of one line, the mark of an explosion."""

from dataclasses import dataclass
from textwrap import shorten
from typing import Any, SupportsFloat

from supple.registry import one_line
from supple.registry.errors import RunError

Step = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]  # what `gymnasium.Env.step` returns

LONGEST = 300  # characters of the original error message


class EnvironmentFault(RunError):
    """An environment raised an exception or violated Gymnasium's interface.

    Attributes:
        environment: Its name.
        what: A description in one line.
    """

    def __init__(self, environment: str, what: str) -> None:
        super().__init__(environment, what)
        self.environment, self.what = environment, what

    def __str__(self) -> str:
        return f"{self.environment}: {self.what}"


class ExplosionInfo(dict[Any, Any]):
    """The `info` of a step in which the physics exploded: that of the environment, with two attributes.

    Its class marks it and not an entry, because an environment's own entries may have any name.

    Attributes:
        reward: The original reward, a float, or "nan", "inf", "-inf".
        cause: "reward", "observation" or "simulation".
    """

    def __init__(self, info: dict[Any, Any], reward: float | str, cause: str) -> None:
        super().__init__(info)
        self.reward, self.cause = reward, cause


@dataclass(frozen=True, slots=True)
class Episode:
    """A finished episode."""

    index: int  # of its environment
    ret: float  # undiscounted
    length: int  # steps
    explosion: float | str | None = None  # the reward at which the physics exploded, as the guard reports it
    broken_off: bool = False  # whether the agent interrupted it

    @property
    def exploded(self) -> bool:
        return self.explosion is not None


def fault_of(environment: str, call: str, error: Exception) -> EnvironmentFault:
    """Return the fault to raise from an exception, which gets a note, so that its traceback is shown.

    Args:
        environment: The environment's name.
        call: What was called, such as "step()".
        error: What it raised.
    """
    error.add_note(f"{environment}: {call}")
    return EnvironmentFault(environment, f"{call} raised {one_line(error)}")


def text_of(space: Any) -> str:
    """Return the text of a space in one line. NumPy breaks those of matrices and of long bounds into several."""
    return shorten(" ".join(str(space).split()), LONGEST, placeholder=" …")


def read_attribute(env: Any, name: str) -> Any:
    """Return an attribute of the environment inside all wrappers, or None if it has none, or if reading it fails.

    An attribute of any environment may have this name, and a property may not work before the first reset."""
    try:
        return getattr(env.unwrapped, name, None)
    except Exception:
        return None
