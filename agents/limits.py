"""Checks of settings that agents share."""

from typing import Any

SET_ELSEWHERE = {  # names that `gymnasium.make` takes for itself
    "id": "use --env",
    "max_episode_steps": "use --max-episode-steps",
    "render_mode": "environments render only for the videos of reports",
    "disable_env_checker": "supple checks environments itself",
}


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


def in_one_line(*notes: str | None) -> str | None:
    """Return the notes on settings that there are as one line, or None without any."""
    return "; ".join(filter(None, notes)) or None
