"""FIRE by several methods and its arithmetic; a pass through MoRAM and PEFT's LoRA; QQᵀ(t) and its formula."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from supple.interventions.isometry import fire_
from supple.interventions.orthogonalize import orthogonalize
from supple.networks import isometry_scale
from supple.tracks.language import MoRAM
from supple.tracks.linear import Exact, balanced_init
from supple.tracks.linear.weights import Array

Side = tuple[Callable[[], object], int]

# -- FIRE -------------------------------------------------------------------------------------------------------------

VGG16 = (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)  # Simonyan & Zisserman 2015, column D


def vgg16(classes: int = 10) -> nn.Sequential:
    """Return VGG-16 with batch norm for 32×32 inputs: 13 convolutions 3×3, then 512-512-`classes` linear."""
    layers: list[nn.Module] = []
    for c_in, c_out in zip((3, *VGG16), VGG16, strict=False):
        layers += [nn.Conv2d(c_in, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, classes))


def agent() -> nn.Sequential:
    """Return three hidden layers of 256 on Ant's 105 observations, and heads for 8 actions and a value."""
    hidden = [nn.Linear(105, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh()]
    return nn.Sequential(*hidden, nn.Linear(256, 8), nn.Linear(256, 1))


def weights_of(module: nn.Module) -> list[Tensor]:
    return [layer.weight.detach() for layer in module.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]


def cubic_flops(module: nn.Module, steps: int = 10) -> float:
    """Return the operations of FIRE's cubic method.

    These are 2k²N for the Gram matrix (counted in full: torch has no symmetric product) and 2k²N for the product with
    it, per step and matrix with sides N ≥ k. Normalisation, scale and copies are not counted."""
    total = 0
    for weight in weights_of(module):
        k, n = sorted(weight.shape[:2])
        total += weight[0, 0].numel() * steps * 4 * k * k * n
    return total


@torch.no_grad()
def fire_tap_by_tap(module: nn.Module) -> None:
    """Compute the same result, one matrix at a time."""
    for weight in weights_of(module):
        taps = weight.flatten(2).unbind(2) if weight.ndim == 4 else (weight,)
        for tap in taps:
            tap.copy_(orthogonalize(tap).mul_(isometry_scale(weight)))


NETWORKS: dict[str, Callable[[], nn.Module]] = {"vgg": vgg16, "agent": agent}


def fire(threads: int, network: str, method: str) -> Side:
    """Make applications of FIRE to the same weights again and again. method: one of `fire_`, or tap-by-tap."""
    torch.manual_seed(0)
    module = NETWORKS[network]()
    initial = {name: tensor.clone() for name, tensor in module.state_dict().items()}

    def turn() -> None:
        module.load_state_dict(initial)
        if method == "tap-by-tap":
            fire_tap_by_tap(module)
        else:
            fire_(module, method)

    return turn, 1


def fire_floor(threads: int, network: str) -> Side:
    """Make as much arithmetic as its cubic steps in products of 1024³."""
    a, b, out = torch.randn(1024, 1024), torch.randn(1024, 1024), torch.empty(1024, 1024)
    share = cubic_flops(NETWORKS[network]()) / (2 * 1024**3)  # products of an application
    repeats = max(1, round(share))
    return lambda: [torch.mm(a, b, out=out) for _ in range(repeats)], repeats / share  # type: ignore[return-value]


# -- MoRAM ------------------------------------------------------------------------------------------------------------

TOKENS, WIDTH, TASKS, PASSES = 512, 2048, 10, 20


def moram_side(threads: int, kind: str) -> Side:
    linear, x = nn.Linear(WIDTH, WIDTH), torch.randn(TOKENS, WIDTH)
    run = forward({"moram": lambda: moram(linear, TASKS), "lora": lambda: peft_lora(linear)}[kind](), x)
    return lambda: [run() for _ in range(PASSES)], PASSES


def peft_lora(linear: nn.Linear, r: int = 16) -> nn.Module:
    from peft.tuners.lora.config import LoraConfig
    from peft.tuners.lora.layer import Linear

    layer = Linear(linear, "default", LoraConfig(r=r, lora_alpha=r), r=r, lora_alpha=r)
    nn.init.normal_(layer.lora_B["default"].weight, std=0.02)
    return layer


def moram(linear: nn.Linear, tasks: int, r: int = 16, k: int = 16) -> MoRAM:
    adapter = MoRAM(linear, r=r, k=k)
    for _ in range(tasks):
        adapter.add_task()
        nn.init.normal_(adapter.B, std=0.02)
    return adapter


def forward(module: nn.Module, x: Tensor) -> Callable[[], object]:
    """Return a call that makes a pass in evaluation."""
    module.eval()

    @torch.no_grad()
    def run() -> Tensor:
        output: Tensor = module(x)
        return output

    return run


# -- the exact solution of linear networks ----------------------------------------------------------------------------

TIMES = 10_000


def exact(threads: int, width: str, way: str) -> Side:
    """Evaluate a two-layer linear network's QQᵀ, or W₂W₁, at many times; way: formula for eq. 7 as it stands, one time
    after the other, which fails once e^{2Λt} passes 10¹⁶: all are given times before that."""
    n, rng = int(width), np.random.default_rng(0)
    w1, w2 = balanced_init(2.0, n, n, n, 0.1, rng)
    sigma = rng.normal(size=(n, n)) / np.sqrt(n)
    times = np.linspace(0, 15 / np.hypot(np.linalg.svd(sigma)[1][0], 1.0), TIMES)
    turns: dict[str, Callable[[], object]] = {
        "qq": lambda: Exact(w1, w2, sigma).qq(times),
        "function": lambda: Exact(w1, w2, sigma).function(times),
        "formula": lambda: formula(w1, w2, sigma, times),
    }
    return turns[way], TIMES


def exact_floor(threads: int, width: str) -> Side:
    """Make the operations of each time (with n = N_i + N_o and h = N_h: I + TᵀΦT 2nh², its Cholesky root h³/3, the
    triangular solve nh², rotation by P 2n²h, L·Lᵀ 2n²h) in products, and fill as much memory as the result takes."""
    h = int(width)
    n, a = 2 * h, torch.randn(1024, 1024, dtype=torch.float64)
    products = round(TIMES * (3 * n * h**2 + h**3 / 3 + 4 * n**2 * h) / (2 * 1024**3))

    def turn() -> None:
        for _ in range(products):
            a @ a
        torch.empty(TIMES, n, n, dtype=torch.float64).fill_(1.0)

    return turn, TIMES


def formula(w1: Array, w2: Array, sigma: Array, times: Array) -> Array:
    """Evaluate equation 7, one time after the other."""
    lam = np.trace(w2.T @ w2 - w1 @ w1.T) / len(w1)
    n_in, n_out = w1.shape[1], w2.shape[0]
    f = np.block([[-lam / 2 * np.eye(n_in), sigma.T], [sigma, lam / 2 * np.eye(n_out)]])
    values, p = np.linalg.eigh(f)
    y = p.T @ np.concatenate([w1.T, w2])
    out = np.empty((len(times), len(f), len(f)))
    for place, t in enumerate(times):
        grown = p @ (np.exp(values * t)[:, None] * y)
        inner = np.eye(len(w1)) + y.T @ (np.expm1(2 * values * t)[:, None] / (2 * values[:, None]) * y)
        out[place] = grown @ np.linalg.inv(inner) @ grown.T
    return out
