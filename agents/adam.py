"""Adam's settings, as agents share them."""

from collections.abc import Iterator


def wrong_adam_betas(betas: tuple[float, float]) -> Iterator[str]:
    """Yield an error message unless both of Adam's β lie in [0, 1)."""
    if not all(0.0 <= beta < 1.0 for beta in betas):
        yield f"--adam-betas must both lie in [0, 1), got {betas[0]} {betas[1]}"
