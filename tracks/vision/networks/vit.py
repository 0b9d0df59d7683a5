"""Vision transformer, by default ViT-Tiny (Dosovitskiy et al. 2021; size "Ti" of DeiT, Touvron et al. 2021).

    images → patches → Linear → [class token, patches] + positions → depth × EncoderBlock
           → norm of the class token → Linear

    EncoderBlock:  x ← x + attention(norm(x));  x ← x + narrow(activation(wide(norm(x))))

Query, key and value are separate layers, because FIRE rewrites only the first two of them here (Appendix C). Patches
are 4 × 4 as in Hare & Tortoise (Lee et al. 2024), whose settings FIRE adopted. Their network has dropout, no biases on
query, key and value, and normalised patches. This one has no dropout (FIRE's Table 2 lists none), has the biases and
does not normalise patches, as in the two papers above.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from supple.interventions import Layer, chain
from supple.networks import Scope
from supple.networks.activations import Units

from .structure import Network, Shape, check_sides

STD = 0.02  # of the learned positions at the start (ViT's released code)
PARTS = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out": "out", "wide": "mlp", "narrow": "mlp"}


class Embedding(nn.Module):
    """Images (n, channels, h, w) → tokens (n, 1 + h/patch · w/patch, width), with the class token first."""

    def __init__(self, shape: Shape, patch: int, width: int) -> None:
        super().__init__()
        channels, height, breadth = shape
        self.patches = nn.Conv2d(channels, width, patch, stride=patch)
        self.class_token = nn.Parameter(torch.empty(1, 1, width))
        self.positions = nn.Parameter(torch.empty(1, 1 + (height // patch) * (breadth // patch), width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset the class token and the positions as in ViT's released code. `patches` resets itself.

        Hare & Tortoise draw both from N(0, 1)."""
        nn.init.zeros_(self.class_token)
        nn.init.normal_(self.positions, std=STD)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patches(images).flatten(2).transpose(1, 2)
        return torch.cat([self.class_token.expand(images.shape[0], -1, -1), patches], 1) + self.positions


class SelfAttention(nn.Module):
    """Multi-head self-attention, out(softmax(q·kᵀ/√d)·v) with d = width/heads: (n, tokens, width) → the same shape."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(width, width)
        self.to_k = nn.Linear(width, width)
        self.to_v = nn.Linear(width, width)
        self.to_out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (n, heads, tokens, d)
            for layer in (self.to_q, self.to_k, self.to_v)
        )
        return self.to_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class EncoderBlock(nn.Module):
    """Attention and a two-layer MLP. The input of each is normalised; its output is added to the residual stream."""

    def __init__(self, width: int, heads: int, units: Units) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.wide = nn.Linear(width, units.preactivations(4 * width))
        self.activation = units(4 * width)
        self.narrow = nn.Linear(units.features(4 * width), width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(self.activation(self.wide(self.norm2(x))))


class ViT(Network):
    """Images (n, channels, h, w), with sides that are multiples of `patch` → logits (n, classes).

    5,380,132 parameters for 100 classes and 3 × 32 × 32. Linear layers and the patches' convolution have PyTorch's
    default initialisation, from its global generator (see ResNet18). The class token starts at 0, positions at N(0,
    0.02²).

    Args:
        shape: Channels, height and width of the images.
        classes: The number of outputs.
        width: Numbers of a token, divided among the heads.
        activation: The activation, with optional parameters.
        depth: Blocks.
        heads: Attention heads of a block.
        patch: The side of a patch, in pixels.

    Raises ValueError if the patches do not fit the sides, or the heads do not divide the width.
    """

    features = "norm"
    injectable = "head"
    fire_scope: Scope = ("query", "key")

    def __init__(
        self,
        shape: Shape,
        classes: int,
        width: int = 192,
        activation: str = "gelu",
        depth: int = 12,
        heads: int = 3,
        patch: int = 4,
    ) -> None:
        super().__init__()
        check_sides("vit", shape, patch, multiple=True)
        if width % heads:
            raise ValueError(f"vit: {heads} heads cannot share a width of {width}: it must be a multiple of them")
        units = Units(activation)
        self.embedding = Embedding(shape, patch, width)
        self.blocks = nn.Sequential(*(EncoderBlock(width, heads, units) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.blocks(self.embedding(images))
        return self.head(self.norm(tokens[:, 0]))

    def layers(self) -> tuple[Layer, ...]:
        """Return the patches' convolution, six layers of each block, and the head.

        A scope can name the layers of a block: query, key, value, out, mlp."""
        layers: list[Layer] = []
        depth = -1
        for layer in chain(self):
            part = PARTS.get(layer.name.rsplit(".")[-1], "")
            depth += part not in ("key", "value")  # which lie beside the query
            layers.append(replace(layer, depth=depth, part=part))
        return tuple(layers)
