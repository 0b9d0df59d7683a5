"""Which atoms of an adapter answer to which tokens: the MoRAM paper's Figures 3 and 5."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from .style import INK, new_figure, tidy

Weights = NDArray[np.float32]
COLOURS = "viridis"  # even steps of lightness, also for the colour-blind and in grey


def token_map(weights: Weights, sizes: Sequence[int], tokens: Sequence[str] = (), title: str = "") -> Figure:
    """The mixture weights of every token, an atom a column (Figure 3).

    weights: (tokens, atoms), of `activation_maps`. sizes: atoms that each task added; white lines part them.
    tokens: words for the rows; default: their numbers. Raises ValueError where the numbers do not fit."""
    rows, atoms = weights.shape
    if sum(sizes) != atoms:
        raise ValueError(f"the tasks added {sum(sizes)} atoms, but the map has {atoms}")
    if tokens and len(tokens) != rows:
        raise ValueError(f"{len(tokens)} words for {rows} tokens")
    figure = new_figure(min(12.0, 1.6 + 0.18 * rows))
    axes = figure.subplots()
    _draw(figure, axes, weights, sizes, "mixture weight")
    axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold", color=INK)
    if tokens:
        axes.set_yticks(range(rows), tokens)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel("token", fontsize=9.5, color=INK)
    return figure


def mean_map(maps: Mapping[str, Weights], sizes: Sequence[int], title: str = "") -> Figure:
    """The mean weight of every atom over the tokens of each of several sets, a set a row (Figure 5).

    maps: label → (tokens, atoms); a set from before later tasks has fewer atoms, and its row ends there.
    sizes: atoms that each task added. Raises ValueError for a set without tokens, or with more atoms than that."""
    atoms = sum(sizes)
    means = np.full((len(maps), atoms), np.nan, dtype=np.float32)
    for row, (label, weights) in zip(means, maps.items(), strict=True):
        if not len(weights) or weights.shape[1] > atoms:
            raise ValueError(f"'{label}' has weights {weights.shape}: tokens × at most {atoms} atoms are needed")
        row[: weights.shape[1]] = weights.mean(0)
    figure = new_figure(1.6 + 0.32 * len(maps))
    axes = figure.subplots()
    _draw(figure, axes, means, sizes, "mean weight")
    axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold", color=INK)
    axes.set_yticks(range(len(maps)), list(maps))
    return figure


def _draw(figure: Figure, axes: Axes, values: Weights, sizes: Sequence[int], label: str) -> None:
    tidy(axes)
    axes.grid(False)
    image = axes.imshow(values, aspect="auto", interpolation="nearest", cmap=COLOURS, vmin=0.0)
    for end in np.cumsum(sizes)[:-1]:
        axes.axvline(end - 0.5, color="white", linewidth=1.4)
    axes.set_xlabel("atom, the oldest task's first", fontsize=9.5, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.colorbar(image, ax=axes, label=label, fraction=0.03, pad=0.01)
