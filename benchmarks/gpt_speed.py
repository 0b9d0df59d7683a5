"""Tokens a second of a GPT's training step: supple beside nanoGPT's own loop, re-implemented, at equal settings.

    python benchmarks/gpt_speed.py --rounds 5 --threads 2
    python benchmarks/gpt_speed.py --device cuda --size 124M --micro-batch 12 --block 1024 --accumulate 5

The peer is nanoGPT's train.py and model.py as published, in our words: float32 or autocast, batches stacked row by row
from a memory map, AdamW (fused on a GPU only), clipping, no hooks. Ours is `PretrainWork.advance` and what the loop
asks of the hooks' driver after it (no hooks). Both train the same sizes on the same tokens, in turn; medians of the
rounds and their range.

Floor: 6N + 12·L·width·T operations a token (gpt.py) over the rate of a large matrix product, measured in the same run.
Denormal numbers are taken for zero on both sides, as our training does; `--no-flush` is the other reading.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import timing
import torch
import tyro
from stepped import Stepped
from torch import Tensor, nn
from torch.nn import functional as F

from supple.engine.kinds import find_kind
from supple.engine.runs import attach_hooks, build
from supple.tracks.language.corpora import write_tokens
from supple.tracks.language.pretrain.settings import PretrainSettings

SIZES = {  # layers, width, heads, vocabulary
    "small": (4, 128, 4, 1024),  # the preset warm-start-gpt-small
    "124M": (12, 768, 12, 50304),
}
H200_BF16 = 989e12  # dense bfloat16 operations a second, NVIDIA's data sheet


@dataclass(frozen=True)
class Args(timing.Options):
    size: str = "small"
    """small or 124M."""
    block: int = 64
    """Tokens of a sequence."""
    micro_batch: int = 32
    """Sequences of a pass."""
    accumulate: int = 1
    """Passes of an update."""
    updates: int = 20
    """Updates of a round."""
    rounds: int = 5
    """Rounds, ours and the peer's in turn."""
    threads: int = 2
    """Threads of PyTorch."""
    device: str = "cpu"
    """cpu or cuda (bfloat16 autocast)."""
    compile: bool = False
    """torch.compile on both sides."""


class PeerAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width, bias=False)
        self.c_proj = nn.Linear(width, width, bias=False)
        self.resid_dropout = nn.Dropout(0.0)
        self.heads, self.width = heads, width

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(self.width, dim=2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0, is_causal=True)
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c)))


class PeerBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.attn = PeerAttention(width, heads)
        self.c_fc = nn.Linear(width, 4 * width, bias=False)
        self.c_proj = nn.Linear(4 * width, width, bias=False)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.dropout(self.c_proj(F.gelu(self.c_fc(self.ln_2(x)))))


class PeerGPT(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, block: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(block, width)
        self.drop = nn.Dropout(0.0)
        self.h = nn.ModuleList(PeerBlock(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width, bias=False)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.drop(self.wte(tokens) + self.wpe(torch.arange(tokens.size(1), device=tokens.device)))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


def make_peer_update(o: Args, data: np.memmap) -> Callable[[], None]:
    """Return one update of nanoGPT's loop."""
    layers, width, heads, vocabulary = SIZES[o.size]
    model = PeerGPT(layers, width, heads, vocabulary, o.block).to(o.device)
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    fused = {"fused": True} if o.device == "cuda" else {}
    optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), **fused)
    call: Any = torch.compile(model) if o.compile else model
    context = torch.autocast("cuda", torch.bfloat16) if o.device == "cuda" else nullcontext()

    def batch() -> tuple[Tensor, Tensor]:
        starts = torch.randint(len(data) - o.block, (o.micro_batch,))
        x = torch.stack([torch.from_numpy(data[i : i + o.block].astype(np.int64)) for i in starts])
        y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + o.block].astype(np.int64)) for i in starts])
        if o.device == "cuda":
            x, y = (part.pin_memory().to("cuda", non_blocking=True) for part in (x, y))
        return x, y

    state = {"batch": batch()}

    def update() -> None:
        for group in optimizer.param_groups:
            group["lr"] = 6e-4
        for _ in range(o.accumulate):
            with context:
                loss = call(*state["batch"]) / o.accumulate
            state["batch"] = batch()
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return update


def make_our_update(o: Args, folder: Path) -> tuple[Callable[[], None], int]:
    """Return one update of ours, and the operations that training on a token takes."""
    layers, width, heads, _ = SIZES[o.size]
    settings = PretrainSettings(
        first=(str(folder),), layers=layers, width=width, heads=heads, block_size=o.block,
        batch_size=o.micro_batch * o.accumulate, micro_batch=o.micro_batch, pretrain_steps=10_000, threads=o.threads,
        device=o.device, compile=o.compile, val_sequences=2,
    )  # fmt: skip
    work = build(find_kind("pretrain"), settings)
    model: Any = work.learners["model"].module
    return Stepped(work, attach_hooks(work, ())).advance, model.flops_per_token(o.block)


def measure_tokens_per_second(update: Callable[[], None], o: Args) -> float:
    """Return the tokens a second over a round."""
    if o.device == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(o.updates):
        update()
    if o.device == "cuda":
        torch.cuda.synchronize()
    return o.updates * o.accumulate * o.micro_batch * o.block / (time.perf_counter() - started)


def matmul_rate(o: Args) -> float:
    """Return the operations a second of a large square product, the best of five."""
    n = 8192 if o.device == "cuda" else 1536
    kind = torch.bfloat16 if o.device == "cuda" else torch.float32
    a, b = torch.randn(2, n, n, device=o.device, dtype=kind).unbind()
    rates = []
    for _ in range(6):
        started = time.perf_counter()
        float((a @ b)[0, 0])  # waits for the GPU too
        rates.append(2 * n**3 / (time.perf_counter() - started))
    return max(rates[1:])


def main(o: Args) -> None:
    timing.begin(o.threads, o.flush)
    torch.manual_seed(0)
    vocabulary = SIZES[o.size][3]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tokens = np.random.default_rng(0).integers(0, vocabulary, 1_000_000).astype(np.uint16)
        for part in ("train", "validation"):
            write_tokens(folder / f"{part}.bin", [tokens], "random", "bytes", "random", vocabulary)
        update, operations = make_our_update(o, folder)
        sides = {"supple": update, "nanoGPT": make_peer_update(o, np.memmap(folder / "train.bin", np.uint16, "r"))}
        for side in sides.values():
            for _ in range(3):
                side()
        rates: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(o.rounds):
            for name, side in sides.items():
                rates[name].append(measure_tokens_per_second(side, o))
        rate = matmul_rate(o)
    middle = {name: statistics.median(found) for name, found in rates.items()}
    for name, found in rates.items():
        spread, share = f"{min(found):,.0f} to {max(found):,.0f}", middle[name] * operations / rate
        print(f"{name:8} {middle[name]:10,.0f} tokens/s ({spread}), {share:.0%} of the product rate")
    print(f"ratio    {middle['supple'] / middle['nanoGPT']:.2f}")
    print(f"product rate {rate / 1e9:,.0f} GFLOP/s; {operations / 1e6:.2f} MFLOP a token")
    if o.device == "cuda":
        print(f"MFU      {middle['supple'] * operations / H200_BF16:.1%} of {H200_BF16 / 1e12:.0f} TFLOP/s")
    print(json.dumps({"options": vars(o), "rates": rates, "product_rate": rate}))


if __name__ == "__main__":
    main(tyro.cli(Args))
