"""GPT in nanoGPT's 124M configuration, its optimizer, and its learner for interventions and metrics.

    tokens (B, T) → wte + wpe → layers × DecoderBlock → ln_f → lm_head → logits (B, T, V)

    DecoderBlock:  x ← x + attn(ln_1(x));  x ← x + mlp(ln_2(x))

This is GPT-2 (Radford et al. 2019) with nanoGPT's choices (Karpathy 2023), which FIRE's experiments adopted (E.2): no
biases, no dropout, and a vocabulary of 50,257 padded to 50,304. Parameters have GPT-2's names, and its weights fit
after transposition. `lm_head` and `wte` are one tensor, which `named_parameters` calls wte.weight.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from supple.interventions import FireScope, Layer, Learner, unit_names
from supple.networks import no_batches
from supple.networks.activations import Units
from supple.networks.learner import Batches, Probe
from supple.networks.symmetry import ScalePair

STD = 0.02  # of all weights at the start; of those that end in the residual stream 0.02/√(2·layers) (GPT-2)
IGNORED = -100  # a target that does not count
PARTS = {
    "attn.c_attn": ("qkv", 3),
    "attn.c_proj": ("attn_proj", 1),
    "mlp.c_fc": ("fc", 1),
    "mlp.c_proj": ("mlp_proj", 1),
}


@dataclass(frozen=True)
class GPTConfig:
    """The sizes of a GPT, by default those of nanoGPT's GPT-2 (124M). Raises ValueError if they do not fit."""

    vocab_size: int = 50304
    block_size: int = 1024
    layers: int = 12
    heads: int = 12
    width: int = 768
    dropout: float = 0.0
    activation: str = "gelu"

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"gpt: {self.heads} heads cannot share a width of {self.width}: it must be a multiple")


class CausalSelfAttention(nn.Module):
    """Causal multi-head self-attention, with query, key and value in one layer: (B, T, width) → the same shape."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.c_attn = nn.Linear(config.width, 3 * config.width, bias=False)  # rows of q, then k, then v
        self.c_proj = nn.Linear(config.width, config.width, bias=False)
        self.dropout = config.dropout

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.c_attn(x).unflatten(-1, (3, self.heads, -1)).transpose(1, 3).unbind(2)  # (B, heads, T, d)
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Two linear layers with 4 · width units between them: (B, T, width) → the same shape."""

    def __init__(self, config: GPTConfig, units: Units) -> None:
        super().__init__()
        hidden = 4 * config.width
        self.c_fc = nn.Linear(config.width, units.preactivations(hidden), bias=False)
        self.activation = units(hidden)
        self.c_proj = nn.Linear(units.features(hidden), config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(self.activation(self.c_fc(x)))


class DecoderBlock(nn.Module):
    def __init__(self, config: GPTConfig, units: Units) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.width, bias=False)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.width, bias=False)
        self.mlp = FeedForward(config, units)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attn(self.ln_1(x)))
        return x + self.dropout(self.mlp(self.ln_2(x)))


class GPT(nn.Module):
    """A causal language model: tokens (B, T) int64 with T ≤ block_size → logits (B, T, vocab_size).

    All weights are drawn from `generator`, on the CPU: from N(0, 0.02²), and those of both c_proj of a block from N(0,
    0.02²/(2·layers)). PyTorch's global generator is not used.
    """

    def __init__(self, config: GPTConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.config = config
        units = Units(config.activation)
        with torch.random.fork_rng(devices=[]):  # what layers draw by themselves is written over
            self.wte = nn.Embedding(config.vocab_size, config.width)
            self.wpe = nn.Embedding(config.block_size, config.width)
            self.dropout = nn.Dropout(config.dropout)
            self.h = nn.ModuleList(DecoderBlock(config, units) for _ in range(config.layers))
            self.ln_f = nn.LayerNorm(config.width, bias=False)
            self.lm_head = nn.Linear(config.width, config.vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight
        for name, part in self.named_modules():
            if isinstance(part, (nn.Linear, nn.Embedding)) and part is not self.lm_head:
                std = STD / math.sqrt(2 * config.layers) if name.endswith("c_proj") else STD
                nn.init.normal_(part.weight, 0.0, std, generator)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor:
        """Return the logits; with targets (B, T) the mean cross-entropy in nats over those that are not −100."""
        x = self.dropout(self.wte(tokens) + self.wpe.weight[: tokens.shape[1]])  # (B, T, width)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        if targets is None:
            return logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)

    def losses(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy of each sequence, (B,)."""
        flat = F.cross_entropy(
            self(tokens).flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="none"
        )  # 0 where ignored
        return flat.view(targets.shape).sum(1) / (targets != IGNORED).sum(1)

    def scale_symmetries(self) -> list[ScalePair]:
        """Return the pairs of `sib`: the value rows of c_attn with the columns of c_proj, channel by channel.

        The MLP has no gate, and GELU(αx) is not αGELU(x), so it has no pair."""
        c, blocks = self.config, list[Any](self.h)
        layers = [(block.attn.c_attn, block.attn.c_proj) for block in blocks]
        return [
            ScalePair(f"h.{i}.attn", *pair, c.width, heads=c.heads, first=2 * c.width) for i, pair in enumerate(layers)
        ]


def make_adamw(
    model: nn.Module, learning_rate: float, weight_decay: float = 0.1, betas: tuple[float, float] = (0.9, 0.95)
) -> torch.optim.AdamW:
    """Return nanoGPT's optimizer, fused.

    Tensors of two dimensions or more (matrices, embeddings) have weight decay; biases and normalisations have none.

    Args:
        learning_rate: The highest one, which schedules scale.
        weight_decay: Of matrices and embeddings, ≥ 0.
        betas: The decay rates of both moments, in [0, 1).
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=learning_rate, betas=betas, fused=True)


def gpt_learner(
    model: GPT,
    optimizer: torch.optim.Optimizer | None,
    *,
    probe: Probe,
    loss: Callable[[], Tensor],
    generator: torch.Generator,
    batches: Batches = no_batches,
) -> Learner:
    """Return the learner of a GPT for interventions and metrics. Call it before the first update.

    The layers are `qkv` (three matrices in one), `attn_proj`, `fc` and `mlp_proj` of each block, all hidden, and the
    head, which is also the embedding. No layer is only an encoder. Positions and normalisations are no layers: `fire`
    leaves them alone, while `snp` and `reset` with the scope "all" include them.

    Units are the activations of the MLPs, between c_fc and c_proj. Features are the outputs of ln_f, which the head
    reads. New draws (`redraw`) come from the learner's generator.

    Args:
        model: The GPT.
        optimizer: Its optimizer, or None.
        probe: Returns recent inputs, (B, T) int64, as the arguments of a forward pass.
        loss: Returns the loss on recent data, differentiable, ().
        generator: Draws for interventions.
        batches: Yields losses of single sequences, (B,), for as many batches as it is given.
    """
    layers: list[Layer] = []
    for i in range(len(model.h)):
        for path, (part, split) in PARTS.items():
            name = f"h.{i}.{path}"
            layers.append(Layer(name, model.get_submodule(name), "hidden", len(layers), part, split))
    return Learner(
        "model",
        model,
        optimizer,
        (*layers, Layer("lm_head", model.lm_head, "head", len(layers))),
        unit_names(model),
        probe=probe,
        loss=loss,
        generator=generator,
        redraw=lambda: {name: p.detach() for name, p in GPT(model.config, generator).named_parameters()},
        batches=batches,
        features="ln_f",
        capabilities=(FireScope(("hidden", "head")),),  # also the head, which is tied to the embedding
    )
