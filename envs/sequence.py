"""Sequences of environments, given by a name or as a list of environments."""

from .make import resolve_env

SEQUENCES = {
    # The order in the text of section 7 (written there with v4 ids; the v5 tasks are used here).
    "cycling-text": ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5"),
    # The order that the tables and figures of appendix F show.
    "cycling-tables": ("HalfCheetah-v5", "Humanoid-v5", "Ant-v5", "Hopper-v5"),
    # C-CHAIN (Tang et al., ICML 2025): MinAtar games with different numbers of channels.
    "continual-minatar": ("MinAtar/SpaceInvaders-v0", "MinAtar/Asterix-v0", "MinAtar/Seaquest-v0"),
    # The order of REMARL2 (github.com/Angelawork/REMARL2_Rehearsal-CRL-with-Marginal-L2, minatar_job.sh).
    "minatar-five": (
        "MinAtar/Breakout-v0",
        "MinAtar/Freeway-v0",
        "MinAtar/Asterix-v0",
        "MinAtar/Seaquest-v0",
        "MinAtar/SpaceInvaders-v0",
    ),
}


def parse_sequence(text: str) -> tuple[str, ...]:
    """Return the Gymnasium ids of a named sequence (`cycling-text`) or a comma-separated list (`hopper,ant`).

    An environment may occur more than once. Raises ValueError if an item is empty or unknown.
    """
    if text.strip().lower() in SEQUENCES:
        return SEQUENCES[text.strip().lower()]
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise ValueError(
            f"empty item in sequence {text!r}: separate the environments by single commas, "
            f"or use one of {', '.join(SEQUENCES)}"
        )
    return tuple(resolve_env(name) for name in names)
