"""Checks that agents share: each yields an error message for every setting whose value is out of range."""

from collections.abc import Iterator
from typing import Any

from supple.engine import settings as engine_settings
from supple.registry.errors import UsageError

SET_ELSEWHERE = {  # names that `gymnasium.make` takes for itself
    "id": "use --env",
    "max_episode_steps": "use --max-episode-steps",
    "render_mode": "environments render only for the videos of reports",
    "disable_env_checker": "supple checks environments itself",
}


def not_positive(settings: Any, *names: str) -> Iterator[str]:
    """Check that numbers, and all entries of tuples, are finite and above 0. None is accepted."""
    for name, value in _options(settings, names):
        least = min(value, default=0) if isinstance(value, tuple) else value
        yield from engine_settings.not_positive(**{name: least})


def negative(settings: Any, *names: str) -> Iterator[str]:
    """Check that numbers are 0 or more. None is accepted."""
    for name, value in _options(settings, names):
        if value is not None and value < 0:
            yield f"{name} must be 0 or more, got {value}"


def outside_unit_interval(settings: Any, *names: str) -> Iterator[str]:
    """Check that numbers lie in [0, 1]. None is accepted."""
    for name, value in _options(settings, names):
        if value is not None and not 0.0 <= value <= 1.0:
            yield f"{name} must lie in [0, 1], got {value}"


def wrong_adam(settings: Any) -> Iterator[str]:
    """Check the learning rate of Adam, its ε, both of its β, which lie in [0, 1), and its weight decay."""
    yield from not_positive(settings, "learning_rate", "adam_epsilon")
    first, second = settings.adam_betas
    if not (0.0 <= first < 1.0 and 0.0 <= second < 1.0):
        yield f"--adam-betas must both lie in [0, 1), got {first} {second}"
    yield from negative(settings, "weight_decay")


def wrong_kwargs(settings: Any) -> Iterator[str]:
    """Check that the keyword arguments of environments are a JSON object, of names that have no option."""
    try:
        for name in settings.kwargs.keys() & SET_ELSEWHERE.keys():
            yield f"--env-kwargs cannot set {name}: {SET_ELSEWHERE[name]}"
    except UsageError as error:
        yield str(error)


def compile_problem() -> str | None:
    """Return a line for the user if torch.compile does not work on this machine, else None."""
    from supple.engine.compile import can_compile  # PyTorch, which help lines do without

    if can_compile():
        return None
    return "torch.compile does not work here (is a C++ compiler installed?): updates run in eager mode, slower"


def drawn_by_member(settings: Any) -> str | None:
    """Return a line for the user if each member of a stack draws its own random activations, else None."""
    from supple.networks.activations import RandomActivation, parse_activation  # PyTorch, which help lines do without

    if not (settings.stacked and isinstance(parse_activation(settings.activation), RandomActivation)):
        return None
    return f"--activation {settings.activation} draws for each seed of a stack: updates run in eager mode, slower"


def _options(settings: Any, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield option and value of each of these settings, but for those that are "auto"."""
    for name in names:
        if (value := getattr(settings, name)) != "auto":
            yield f"--{name.replace('_', '-')}", value


def in_one_line(*notes: str | None) -> str | None:
    """Return the notes on settings that there are as one line, or None without any."""
    return "; ".join(filter(None, notes)) or None
