"""Networks with draws, counters and hooks of their own."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.zoo.kinds.plain import ALL, INPUTS, ROWS, WIDTH, Three, by_hand, layers, rows
from tests.zoo.networks import Made, network

SOME = ("fire", "reset", "snp")


@network("draws from its own torch.Generator in every forward pass", acts=SOME, silent=False, steady=False)
def own_generator() -> Made:
    class Net(Three):
        def __init__(self) -> None:
            super().__init__()
            self.generator = torch.Generator().manual_seed(1)
            self.act1, self.act2 = nn.ReLU(), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            x = x + 0.01 * torch.randn(x.shape, generator=self.generator)
            return self.fc3(self.act2(self.fc2(self.act1(self.fc1(x)))))

    return Net(), rows()


@network("F.dropout in evaluation mode too, by the global generator", acts=SOME)
def always_dropout() -> Made:
    class Net(Three):
        def __init__(self) -> None:
            super().__init__()
            self.act1, self.act2 = nn.ReLU(), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.fc3(self.act2(self.fc2(F.dropout(self.act1(self.fc1(x)), 0.3))))

    return Net(), rows()


@network("noise by torch.randn and numpy in every forward pass", acts=SOME, steady=False)
def noisy() -> Made:
    class Net(Three):
        def __init__(self) -> None:
            super().__init__()
            self.act1, self.act2 = nn.ReLU(), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            import random

            import numpy as np

            x = x + 0.01 * torch.randn_like(x) + 0.01 * float(np.random.rand()) + 0.01 * random.random()  # noqa: NPY002
            return self.fc3(self.act2(self.fc2(self.act1(self.fc1(x)))))

    return Net(), rows()


@network("hooks on its modules", hidden=by_hand, acts=SOME)
def hooked() -> Made:
    first, second, third = layers()
    module = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third)
    seen: list[tuple[int, ...]] = []
    module[0].register_forward_hook(lambda part, args, output: seen.append(tuple(output.shape)))
    module[2].register_forward_pre_hook(lambda part, args: (args[0] * 1.0,))
    module[4].register_full_backward_hook(lambda part, inputs, outputs: None)
    return module, rows()


@network("keeps its last activations in an attribute", acts=SOME)
def remembers() -> Made:
    class Net(Three):
        def __init__(self) -> None:
            super().__init__()
            self.act1, self.act2 = nn.ReLU(), nn.ReLU()
            self.last: Tensor | None = None
            self.seen: list[Tensor] = []

        def forward(self, x: Tensor) -> Tensor:
            h = self.act2(self.fc2(self.act1(self.fc1(x))))
            self.last = h.detach()
            self.seen.append(h.detach().mean())
            return self.fc3(h)

    return Net(), rows()


@network("keeps its hidden state from pass to pass", acts=SOME, steady=False)
def stateful() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = nn.GRUCell(INPUTS, WIDTH), nn.Linear(WIDTH, 3)
            self.state = torch.zeros(ROWS, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            self.state = self.cell(x, self.state.detach())
            return self.out(self.state)

    return Net(), rows()


@network("a forward pass that depends on the values", acts=SOME)
def branches() -> Made:
    class Net(Three):
        def forward(self, x: Tensor) -> Tensor:
            h = F.relu(self.fc1(x))
            if h.sum() > 0:
                h = F.relu(self.fc2(h))
            return self.fc3(h)

    return Net(), rows()


@network("PReLU and learned temperatures", acts=("reset", "snp", "fire"))
def learned_slopes() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            first, second, third = layers()
            self.body = nn.Sequential(first, nn.PReLU(WIDTH), second, nn.PReLU(), third)
            self.temperature = nn.Parameter(torch.tensor(1.0))

        def forward(self, x: Tensor) -> Tensor:
            return self.body(x) * self.temperature

    return Net(), rows()


@network("a mixture of experts, chosen by the input", acts=("reset", "snp", "fire"))
def experts() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(INPUTS, 2)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(INPUTS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3)) for _ in range(2)
            )

        def forward(self, x: Tensor) -> Tensor:
            weights = self.gate(x).softmax(-1)
            return sum(weights[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))

    return Net(), rows()


@network("a slots class with methods that are not forward", forward="score", hidden=by_hand, acts=ALL)
def other_method() -> Made:
    class Net(Three):
        def score(self, x: Tensor) -> Tensor:
            return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))

    return Net(), rows()


@network("activation checkpointing", acts=SOME)
def checkpointed() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            first, second, third = layers()
            self.body, self.head = nn.Sequential(first, nn.ReLU(), second, nn.ReLU()), third

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.utils.checkpoint.checkpoint(self.body, x, use_reentrant=False))

    import torch.utils.checkpoint

    return Net(), rows()
