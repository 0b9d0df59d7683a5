"""Maps of the atoms of an adapter that are active on each token (MoRAM, Figures 3 and 5)."""

import json
from collections.abc import Sequence
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


def atom_map(weights: Weights, sizes: Sequence[int], labels: Sequence[str] = (), title: str = "") -> Figure:
    """Return a figure of mixture weights with one column per atom (Figure 3; of means by task, Figure 5).

    Args:
        weights: (rows, atoms), of `activation_maps` or their means over tokens; NaN where a row has fewer atoms.
        sizes: The number of atoms that each task added. White lines separate them.
        labels: The labels of the rows, by default their numbers.
        title: The figure's title.

    Raises ValueError if the numbers do not fit.
    """
    if sum(sizes) != weights.shape[1] or (labels and len(labels) != len(weights)):
        raise ValueError(f"weights {weights.shape} do not fit {sum(sizes)} atoms and {len(labels)} labels")
    figure = new_figure(min(12.0, 1.6 + 0.18 * len(weights)))
    _draw(figure, figure.subplots(), weights, sizes, labels or range(len(weights)), title)
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
        _draw(figure, axes, weights, sizes[layer], tasks, layer)
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


def _draw(
    figure: Figure, axes: Axes, values: Weights, sizes: Sequence[int], labels: Sequence[object], title: str
) -> None:
    tidy(axes, title)
    axes.grid(False)
    image = axes.imshow(values, aspect="auto", interpolation="nearest", cmap=COLOURS, vmin=0.0)
    for end in np.cumsum(sizes)[:-1]:
        axes.axvline(end - 0.5, color="white", linewidth=1.4)
    axes.set_xlabel("atom, the oldest task's first", fontsize=9.5, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_yticks(range(len(labels)), list(map(str, labels)))
    figure.colorbar(image, ax=axes, label="mixture weight", fraction=0.03, pad=0.01)
