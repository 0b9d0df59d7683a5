"""A GPT's training step: supple's `PretrainWork.advance`, and nanoGPT's train.py and model.py in our words.

The latter in float32 or autocast, batches stacked row by row from a memory map, AdamW (fused on a GPU only), clipping,
no hooks. Both train the same sizes on the same random tokens.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stepped import Stepped
from timing import temporary_folder
from torch import Tensor, nn
from torch.nn import functional as F

from supple.engine.kinds import find_kind
from supple.engine.runs import attach_hooks, build
from supple.tracks.language.corpora import write_tokens
from supple.tracks.language.pretrain.settings import PretrainSettings

Side = tuple[Callable[[], object], int]


@dataclass(frozen=True)
class Size:
    layers: int
    width: int
    heads: int
    vocabulary: int
    block: int  # tokens of a sequence
    batch: int  # sequences of an update
    updates: int  # of a turn

    @property
    def tokens(self) -> int:
        """The tokens of a turn."""
        return self.updates * self.batch * self.block


SIZES = {
    "small": Size(4, 128, 4, 1024, 64, 32, 20),  # the preset warm-start-gpt-small
    "124M": Size(12, 768, 12, 50304, 256, 2, 2),
    "124M, of a GPU": Size(12, 768, 12, 50304, 1024, 12, 4),
}


def supple(threads: int, size: str) -> Side:
    return our_turn(SIZES[size], threads), SIZES[size].tokens


def nanogpt(threads: int, size: str) -> Side:
    return peer_turn(SIZES[size]), SIZES[size].tokens


def our_turn(o: Size, threads: int, device: str = "cpu", compiled: bool = False) -> Callable[[], object]:
    folder = write_random(o.vocabulary)
    settings = PretrainSettings(
        first=(str(folder),), layers=o.layers, width=o.width, heads=o.heads, block_size=o.block, batch_size=o.batch,
        micro_batch=o.batch, pretrain_steps=10_000, threads=threads, device=device, compile=compiled, val_sequences=2,
    )  # fmt: skip
    work = build(find_kind("pretrain"), settings)
    stepped = Stepped(work, attach_hooks(work, ()))
    return lambda: [stepped.advance() for _ in range(o.updates)]


def peer_turn(o: Size, device: str = "cpu", compiled: bool = False) -> Callable[[], object]:
    folder = write_random(o.vocabulary)
    update = make_peer_update(o, np.memmap(folder / "train.bin", np.uint16, "r"), device, compiled)
    return lambda: [update() for _ in range(o.updates)]


def write_random(vocabulary: int) -> Path:
    """Return a folder of random tokens."""
    folder = temporary_folder()
    tokens = np.random.default_rng(0).integers(0, vocabulary, 1_000_000).astype(np.uint16)
    for part in ("train", "validation"):
        write_tokens(folder / f"{part}.bin", [tokens], "random", "bytes", "random", vocabulary)
    return folder


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


def make_peer_update(o: Size, data: np.memmap, device: str, compiled: bool) -> Callable[[], None]:
    """Return one update of nanoGPT's loop."""
    model = PeerGPT(o.layers, o.width, o.heads, o.vocabulary, o.block).to(device)
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    fused = {"fused": True} if device == "cuda" else {}
    optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), **fused)
    call: Any = torch.compile(model) if compiled else model
    context = torch.autocast("cuda", torch.bfloat16) if device == "cuda" else nullcontext()

    def batch() -> tuple[Tensor, Tensor]:
        starts = torch.randint(len(data) - o.block, (o.batch,))
        x = torch.stack([torch.from_numpy(data[i : i + o.block].astype(np.int64)) for i in starts])
        y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + o.block].astype(np.int64)) for i in starts])
        if device == "cuda":
            x, y = (part.pin_memory().to("cuda", non_blocking=True) for part in (x, y))
        return x, y

    state = {"batch": batch()}

    def update() -> None:
        for group in optimizer.param_groups:
            group["lr"] = 6e-4
        with context:
            loss = call(*state["batch"])
        state["batch"] = batch()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return update
