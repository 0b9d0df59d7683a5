"""Maps of the atoms of an adapter that are active on each token (MoRAM, Figures 3 and 5)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from supple.experiments.history.data import ComparisonData
from supple.reports.figures.style import INK, Plot, new_figure, tidy

Weights = NDArray[np.float32]
STORED = Path("model/activation_maps.safetensors")  # of a run of `supple train continual --activation-maps True`
COLOURS = "viridis"  # even steps of lightness, also for the colour-blind and in grey


def token_map(weights: Weights, sizes: Sequence[int], tokens: Sequence[str] = (), title: str = "") -> Figure:
    """Return a figure of the mixture weights of every token, with one column per atom (Figure 3).

    Args:
        weights: (tokens, atoms), of `activation_maps`.
        sizes: The number of atoms that each task added. White lines separate them.
        tokens: The labels of the rows, by default their numbers.
        title: The figure's title.

    Raises ValueError if the numbers do not fit.
    """
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
    """Return a figure of the mean weight of every atom over the tokens of each set, with one row per set (Figure 5).

    maps: label → (tokens, atoms). A set from before later tasks has fewer atoms, and its row ends there. sizes: number
    of atoms that each task added. Raises ValueError if a set has no tokens, or more atoms than that."""
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


def draw_stored_maps(study: ComparisonData) -> Plot | None:
    """Draw how much each task uses each atom, for the first run with maps (Figure 5). Return None without maps.

    The layers are the first, the middle and the last one with atoms."""
    runs = [(label, run) for label, of_arm in study.arms.items() for run in of_arm]
    found = [(name, run) for name, run in runs if (run.path / STORED).is_file()]
    if not found:
        return None
    name, run = found[0]
    labels, shown = _read_maps(run.path / STORED)
    tasks, sizes = labels["tasks"], labels["atoms"]
    figure = new_figure((1.3 + 0.28 * len(tasks)) * len(shown))
    panels = figure.subplots(len(shown), squeeze=False)[:, 0]
    for axes, (layer, weights) in zip(panels, shown.items(), strict=True):
        _draw(figure, axes, weights, sizes[layer], "mean weight")
        axes.set_title(layer, loc="left", fontsize=10.5, fontweight="bold", color=INK)
        axes.set_yticks(range(len(tasks)), tasks)
    caption = (
        f"Mean mixture weight of each atom on the training data of each task, at the end; {name}, seed {run.seed}. A "
        f"task that lights up another's atoms makes use of what that one learned. White lines part the tasks' atoms."
    )
    return Plot("activation_maps", "Which atoms the tasks use", caption, figure)


def _read_maps(file: Path) -> tuple[dict[str, Any], dict[str, Weights]]:
    """Return the labels of stored maps (`tasks`: their names, `atoms`: layer → the number that each task added), and
    maps (tasks, atoms) of three layers. Raises ValueError if damaged."""
    try:
        with safe_open(file, "numpy") as tensors:
            labels = json.loads(tensors.metadata()["maps"])
            layers = list(labels["atoms"])
            some = dict.fromkeys((layers[0], layers[len(layers) // 2], layers[-1]))
            return labels, {layer: tensors.get_tensor(layer) for layer in some}
    except (SafetensorError, OSError, ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{file}: damaged ({error})") from error


def _draw(figure: Figure, axes: Axes, values: Weights, sizes: Sequence[int], label: str) -> None:
    tidy(axes)
    axes.grid(False)
    image = axes.imshow(values, aspect="auto", interpolation="nearest", cmap=COLOURS, vmin=0.0)
    for end in np.cumsum(sizes)[:-1]:
        axes.axvline(end - 0.5, color="white", linewidth=1.4)
    axes.set_xlabel("atom, the oldest task's first", fontsize=9.5, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.colorbar(image, ax=axes, label=label, fraction=0.03, pad=0.01)
