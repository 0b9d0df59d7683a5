"""Balance the channels of a causal language model, and report the change of gradients, curvature and logits.

supple sib --model smollm2 --retain gsm8k_train.jsonl --out runs/balanced
supple sib --model DIR --retain reasoning-gym:gsm_symbolic --eigenvalues 0 --out runs/balanced
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from rich.table import Table

from supple.engine.settings import Device, device_here
from supple.engine.storage.signed_json import require_new
from supple.registry.errors import UsageError
from supple.registry.schema import NotNegative, Positive
from supple.scripts.cli.console import say, screen
from supple.scripts.cli.options import parse_or_explain
from supple.tracks.language.balance import balance, write_balance
from supple.tracks.language.chat import collate, encode
from supple.tracks.language.examples import load_task
from supple.tracks.language.models import load_model, save_model


@dataclass(kw_only=True)
class Options:
    model: str
    """Model: a transformers folder, a .gguf file, smollm2 (`supple fetch smollm2`), or OWNER/NAME on the hub."""
    retain: Annotated[str, tyro.conf.arg(metavar="TASK")]
    """Task that is to be retained: a JSONL file or folder of prompt/answer pairs, or reasoning-gym:NAME."""
    out: Path
    """Folder for the balanced model, sib.json and the figures. It must be new or empty."""
    ratio: Positive[float] = 100.0
    """Largest factor R of a channel. Factors lie in [1/R, R]."""
    batch_size: Positive[int] = 16
    """Examples of --retain in a batch. The gradient of the first batch determines the factors."""
    batches: Positive[int] = 2
    """Number of batches on which gradient norms and logits are compared."""
    max_length: Positive[int] = 512
    """Maximum tokens of an example. The beginning of a longer prompt is cut off."""
    eigenvalues: NotNegative[int] = 5
    """Number of the Hessian's largest eigenvalues to compare. 0 saves almost all of the time."""
    max_basis: int | None = None
    """Maximum vectors, each of the model's size, in the eigenvalue search (default: 3 · eigenvalues + 1)."""
    tolerance: Positive[float] = 1e-3
    """Relative error at which an eigenvalue has converged."""
    seed: int = 0
    """Seed of the generated examples (reasoning-gym)."""
    threads: Positive[int] = 1
    """Number of threads of PyTorch."""
    device: Device = "auto"
    """Device: auto is a CUDA GPU if there is one, else the CPU."""


def main(args: Sequence[str]) -> None:
    options = parse_or_explain(Options, args, "supple sib", __doc__)
    require_new(options.out)
    torch.set_num_threads(options.threads)
    count = options.batch_size * options.batches
    task = load_task(options.retain, options.seed, count, 1)
    if len(task.train) < count:
        raise UsageError(f"--retain {options.retain} has {len(task.train)} training examples, fewer than {count}")
    model = load_model(options.model, device_here(options.device), options.seed)
    encoded = encode(model.tokenizer, task.train, options.max_length)
    batches = []
    for start in range(0, count, options.batch_size):
        batch = collate(encoded[start : start + options.batch_size], model.pad)
        tokens, labels, mask = (tensor.to(device_here(options.device)) for tensor in batch)
        batches.append({"input_ids": tokens, "labels": labels, "attention_mask": mask})
    try:
        report = balance(
            model.model,
            batches,
            options.ratio,
            eigenvalues=options.eigenvalues,
            max_basis=options.max_basis,
            tolerance=options.tolerance,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    options.out.mkdir(parents=True, exist_ok=True)
    save_model(model, options.out / "model")
    write_balance({options.model: {**report, "source": model.source, "retain": task.description}}, options.out)
    _show(report)
    say(f"done: {options.out}/model is the balanced model; sib.json and figures beside it")


def _show(report: dict[str, Any]) -> None:
    table = Table(title=f"{report['architecture']}: {report['pairs']} pairs, {report['channels']:,} channels", box=None)
    for column in ("", "before", "after", "ratio"):
        table.add_column(column, justify="right" if column else "left")
    for label, values in (("gradient norm, batch", report["gradient_norm"]), ("eigenvalue", report["eigenvalues"])):
        columns = (values["before"], values["after"], values["ratio"]) if values else ([], [], [])
        for number, (old, new, ratio) in enumerate(zip(*columns, strict=True), 1):
            table.add_row(f"{label} {number}", f"{old:.4g}", f"{new:.4g}", "–" if ratio is None else f"{ratio:.3f}")
    screen.print(table)
    logits = report["logits"]
    say(
        f"logits differ by at most {logits['difference']:.2g}, which is {logits['relative']:.1e} of the largest; "
        f"balancing took {report['seconds']:.2f} s"
    )
