"""The base class of adapters: a frozen Linear, and rank-1 atoms beside it that tasks add and freeze.

    y = W·x + b + Σ_i w_i·B_i·(A_i·x)      i over the atoms of all tasks so far

An atom is a key A_i (d_in) and a value B_i (d_out). LoRA of rank r is r atoms with constant weights w. The kinds of
adapters differ in their weights, in what a new task adds, and in their penalty. Each kind is a subclass.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from supple.interventions.base import check_within
from supple.registry import Registry


class Adapter(nn.Module, ABC):
    """A frozen `nn.Linear` with atoms, which replaces it for inputs (…, d_in) → (…, d_out).

    It begins without atoms and then computes what the Linear alone does. Call `add_task()` before training, and make
    the optimizer after it, because the parameters of every task are new tensors.

    Attributes:
        A, B: The trainable atoms of the current task, one per row: keys (r, d_in) and values (r, d_out). B is the
            transpose of LoRA's, so that the values for a token are contiguous in memory. They are at least float32, as
            in PEFT, because AdamW's steps are lost in bfloat16's 8 bits. Products are computed in the dtype of the
            inputs, scores in float32.
        frozen_A, frozen_B: The atoms of earlier tasks, (atoms, d_in) and (atoms, d_out), as buffers.
        sizes: The number of atoms that each task added.
        watch: A function that every forward pass calls with the detached weights (…, atoms), or None (see atoms.py).
    """

    linear: nn.Linear
    A: nn.Parameter
    B: nn.Parameter
    frozen_A: Tensor
    frozen_B: Tensor
    banks: ClassVar[tuple[str, ...]] = ("A", "B")  # tensors of which a task adds rows, and freezes the older
    unmergeable: ClassVar[str] = ""  # why the atoms cannot become part of the Linear's weight

    def __init__(self, linear: nn.Linear, r: int) -> None:
        """r: The number of atoms that a task adds.

        Raises ValueError if `linear` is no plain Linear, or r < 1.
        """
        super().__init__()
        kind = type(self).__name__
        if not isinstance(linear, nn.Linear):
            raise ValueError(f"{kind} adapts an nn.Linear, not {type(linear).__name__}")
        if not linear.weight.is_floating_point():
            raise ValueError(f"{kind}: the weight is quantised ({linear.weight.dtype}); load the model unquantised")
        check_within(kind, r=(r, "[1, ∞)"))
        self.linear, self.r = linear.requires_grad_(False), r
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.sizes: tuple[int, ...] = ()
        self.watch: Callable[[Tensor], object] | None = None
        dtype = torch.promote_types(linear.weight.dtype, torch.float32)
        for name in self.banks:
            width = linear.out_features if name == "B" else linear.in_features
            empty = torch.empty(0, width, dtype=dtype, device=linear.weight.device)
            self.register_parameter(name, nn.Parameter(empty, requires_grad=False))
            self.register_buffer(f"frozen_{name}", empty.clone())
        self.train(linear.training)

    # What code around a Linear reads of it, besides in_features and out_features.
    @property
    def weight(self) -> Tensor:
        return self.linear.weight

    @property
    def bias(self) -> Tensor | None:
        return self.linear.bias

    @property
    def adapter_layer_names(self) -> tuple[str, ...]:
        """The names of the atoms, under the name that PEFT has for them."""
        return self.banks

    @property
    def atoms(self) -> int:
        """The number of atoms of all tasks."""
        return sum(self.sizes)

    @property
    def params(self) -> dict[str, Any]:
        """The parameters with which the adapter was made, by name."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters if name != "linear"}

    def bank(self, name: str) -> Tensor:
        """Return the rows of all tasks, oldest first, so that there is one product for any number of tasks.

        Concatenating them costs atoms × width numbers per pass, a small part of the product."""
        current, frozen = getattr(self, name), getattr(self, f"frozen_{name}")
        return torch.cat([frozen, current]) if len(frozen) else current

    @torch.no_grad()
    def add_task(self, generator: torch.Generator | None = None) -> None:
        """Freeze the atoms, and add r new ones.

        The keys are initialised as LoRA's, Kaiming-uniform (a = √5), that is U(±1/√d_in), on the CPU from `generator`
        (by default PyTorch's global one). The values begin at 0. No output changes, unless the weights of the old atoms
        do."""
        for name in self.banks:
            old = self.get_parameter(name)
            setattr(self, f"frozen_{name}", self.bank(name).detach().clone())
            new = torch.zeros(self._rows_added(name), old.shape[1], dtype=old.dtype)
            if name != "B":
                nn.init.kaiming_uniform_(new, a=math.sqrt(5), generator=generator)
            setattr(self, name, nn.Parameter(new.to(old.device)))
        self.sizes += (self.r,)

    def _rows_added(self, name: str) -> int:
        """Return the rows of a bank that a task adds."""
        return self.r

    def penalty(self) -> Tensor:
        """Return the term that the adapter adds to the training loss, a scalar. Here it is 0."""
        return self.A.new_zeros(())

    @abstractmethod
    def weights(self, x: Tensor, z: Tensor) -> Tensor:
        """Return the mixture weights (…, atoms) for inputs x (…, d_in) and their activations z = A·x (…, atoms)."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        if not self.atoms:
            return y
        z = F.linear(x, self.bank("A").to(x.dtype))
        return y + self.read(x, z).to(y.dtype)

    def read(self, x: Tensor, z: Tensor) -> Tensor:
        """Return Σ_i w_i·B_i·z_i, (…, d_out)."""
        weights = self.weights(x, z)
        if self.watch:
            self.watch(weights.detach())
        return (weights * z).to(x.dtype) @ self.bank("B").to(x.dtype)

    def activated_parameters(self) -> int:
        """Return the number of the adapter's parameters that one token uses."""
        return self.atoms * (self.in_features + self.out_features)

    @torch.no_grad()
    def merge(self) -> nn.Linear:
        """Add the atoms to the Linear's weight, in place, and return the Linear.

        Raises ValueError if that is impossible, with the reason."""
        if self.unmergeable:
            raise ValueError(f"{type(self).__name__} cannot be merged into the weight: {self.unmergeable}")
        if self.atoms:
            weights = self.weights(self.A[:1], self.A.new_ones(1, self.atoms))
            update = (weights * self.bank("B").T) @ self.bank("A")
            self.linear.weight.copy_(self.linear.weight.to(update.dtype) + update)
        return self.linear

    def tensors(self) -> dict[str, Tensor]:
        """Return the adapter's own part of `state_dict()`, without the Linear."""
        return {name: value for name, value in self.state_dict().items() if not name.startswith("linear.")}

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.sizes, dtype=torch.int64)

    def set_extra_state(self, state: Tensor) -> None:
        self.sizes = tuple(state.tolist())

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        """Change the number of atoms to that of the loaded state. Tensors that already fit stay the same objects."""
        for name in self.banks:
            for entry in (name, f"frozen_{name}"):
                new, old = state_dict.get(prefix + entry), getattr(self, entry)
                if new is not None and new.shape != old.shape and new.shape[1:] == old.shape[1:]:
                    grown = torch.empty(new.shape, dtype=old.dtype, device=old.device)
                    setattr(self, entry, nn.Parameter(grown, requires_grad=len(grown) > 0) if entry == name else grown)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return ", ".join([*(f"{name}={value}" for name, value in self.params.items()), f"sizes={self.sizes}"])


adapters_by_kind: Registry[type[Adapter]] = Registry("adapter")


def widen(z: Tensor) -> Tensor:
    """Return the tensor in at least float32: 8 bits of mantissa are too few for exponentials and sums over atoms."""
    return z.to(torch.promote_types(z.dtype, torch.float32))


def top_k_softmax(scores: Tensor, k: int | None) -> Tensor:
    """Return the softmax over the k largest entries of each row, and 0 elsewhere.

    It is over all entries for k = None or k ≥ their number. scores: (…, n) → (…, n)."""
    if k is None or k >= scores.shape[-1]:
        return scores.softmax(-1)
    kept, index = scores.topk(k, dim=-1, sorted=False)
    return torch.zeros_like(scores).scatter(-1, index, kept.softmax(-1))
