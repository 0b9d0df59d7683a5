"""The effects of scale-invariant balancing on a causal language model: the numbers of Figures 2 and 3 of the SIB paper.

The model is balanced with the gradient of one retain batch ("a single minibatch", Algorithm 1), the first one. The
largest eigenvalues of the loss's Hessian (Figure 2) are measured on this batch. The logits, which must not change, and
the norm of the whole gradient (Figure 3) are measured on every batch. The other batches are data that the factors have
not seen.
"""

import json
import time
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from supple.engine.storage import files
from supple.engine.storage.strict_json import strict_json
from supple.interventions import Rescaling, scale_pairs, sib_
from supple.interventions.base import check_within
from supple.metrics import hessian_eigenvalues
from supple.networks import evaluating

Batch = Mapping[str, Tensor]  # input_ids and labels (−100: does not count), both (batch, tokens); attention_mask
KEPT = 1e-5  # logits that differ by less than this share of the largest are the same in float32
BINS = 40  # of the histogram of factors, from 1/R to R


def batch_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Return the model's own mean loss over the labels that count."""
    return model(**batch, use_cache=False).loss


def balance(
    model: nn.Module,
    batches: Sequence[Batch],
    ratio: float = 100.0,
    eigenvalues: int = 5,
    max_basis: int | None = None,
    tolerance: float = 1e-3,
) -> dict[str, Any]:
    """Balance a causal language model of `transformers` in place, and return a report of the effects for JSON.

    Args:
        batches: Those of the retain set, each with labels. The model is balanced with the first one.
        ratio: R, the largest factor by which a channel is scaled.
        eigenvalues: The number of the Hessian's largest eigenvalues (algebraic; the paper says in magnitude) that are
            measured before and after. 0 means none.
        max_basis, tolerance: As for `hessian_eigenvalues`, with blocks of one vector. By default,
            3·eigenvalues + 1 vectors are in memory at once, each as large as the model (0.5 GB for 135 million
            parameters in float32).

    Fields: `architecture`, `pairs`, `channels`; `logits`: `largest`, `difference` (absolute), `relative` and `kept`
    (relative ≤ 1e-5, which float32 conserves); `gradient_norm`: of all trainable parameters, `before`, `after` and
    `ratio` for each batch, and `of_pairs`: of the balanced weights alone, before and as predicted after; `eigenvalues`:
    `before`, `after`, `ratio` (after/before; null if it was not positive before), or null; `alpha`: `smallest`,
    `median`, `largest`, `clipped`, `idle`, and a histogram with the `edges` of its bins and its `counts`; `seconds` of
    the balancing itself. Dropout is off during the measurements.

    Raises ValueError if `sib_` raises it.
    """
    check_within("sib", ratio=(ratio, "[1, ∞)"))
    scale_pairs(model)  # refuses before minutes are spent on curvature
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def look() -> tuple[list[float], list[float]]:
        """Return the norm of the gradient of each batch, and the largest eigenvalues on the first one."""
        norms = [_gradient_norm(model, trained, batch) for batch in batches]
        if not eigenvalues:
            return norms, []
        found = hessian_eigenvalues(
            lambda: batch_loss(model, batches[0]), trained, eigenvalues, tolerance=tolerance, max_iterations=200,
            block=1, max_basis=max_basis or 3 * eigenvalues + 1,
        )  # fmt: skip
        return norms, [float(value) for value in found]

    with evaluating(model):
        logits, before = [_logits(model, batch) for batch in batches], look()
        started = time.perf_counter()
        balanced = sib_(model, lambda: batch_loss(model, batches[0]), ratio)
        seconds = time.perf_counter() - started
        kept, after = _difference(model, batches, logits), look()
    norms, curvature = (_compare(*sides) for sides in zip(before, after, strict=True))
    return {
        "architecture": getattr(getattr(model, "config", None), "model_type", type(model).__name__),
        "pairs": balanced.pairs,
        "channels": len(balanced.alpha),
        "logits": kept,
        "gradient_norm": norms | {"of_pairs": [balanced.gradient_norm, balanced.predicted]},
        "eigenvalues": curvature if eigenvalues else None,
        "alpha": _factors(balanced, ratio),
        "seconds": seconds,
    }


def write_balance(reports: Mapping[str, Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write the reports of models, by name, to `folder`, and return the paths.

    The files are sib.json, and the figures sib_eigenvalues.png (if eigenvalues were measured) and
    sib_gradient_norms.png."""
    from .report.balance import eigenvalue_ratios, gradient_norms

    folder.mkdir(parents=True, exist_ok=True)
    body = json.dumps(strict_json(reports), indent=2, allow_nan=False, ensure_ascii=False)
    contents = {folder / "sib.json": f"{body}\n".encode()}
    for plot in filter(None, (eigenvalue_ratios(reports), gradient_norms(reports))):
        picture = BytesIO()
        plot.figure.savefig(picture, format="png")
        contents[folder / f"{plot.name}.png"] = picture.getvalue()
    for path, content in contents.items():
        files.replace(path, content)
    return list(contents)


@torch.no_grad()
def _logits(model: nn.Module, batch: Batch) -> Tensor:
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    return model(**inputs, use_cache=False).logits


def _difference(model: nn.Module, batches: Sequence[Batch], before: Sequence[Tensor]) -> dict[str, Any]:
    largest = max(float(logits.abs().max()) for logits in before)
    difference = max(float((_logits(model, b) - old).abs().max()) for b, old in zip(batches, before, strict=True))
    relative = difference / largest if largest else 0.0
    return {"largest": largest, "difference": difference, "relative": relative, "kept": relative <= KEPT}


def _gradient_norm(model: nn.Module, trained: Sequence[Tensor], batch: Batch) -> float:
    gradients = torch.autograd.grad(batch_loss(model, batch), trained, allow_unused=True)
    norms = [torch.linalg.vector_norm(g, dtype=torch.float64) for g in gradients if g is not None]
    return float(torch.linalg.vector_norm(torch.stack(norms)))


def _compare(before: Sequence[float], after: Sequence[float]) -> dict[str, Any]:
    ratios = [new / old if old > 0 else None for old, new in zip(before, after, strict=True)]
    return {"before": list(before), "after": list(after), "ratio": ratios}


def _factors(balanced: Rescaling, ratio: float) -> dict[str, Any]:
    alpha = balanced.alpha.double().cpu().numpy()
    edges = np.geomspace(1 / ratio, ratio, BINS + 1) if ratio > 1 else np.array([0.9, 1.1])
    edges[[0, -1]] = min(edges[0], alpha.min()), max(edges[-1], alpha.max())  # rounding at the ends
    return {
        "smallest": float(alpha.min()),
        "median": float(np.median(alpha)),
        "largest": float(alpha.max()),
        "clipped": balanced.clipped,
        "idle": balanced.idle,
        "edges": edges.tolist(),
        "counts": np.histogram(alpha, edges)[0].tolist(),
    }
