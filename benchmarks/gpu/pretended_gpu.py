"""A GPU that is not there: tensors on it have shapes, types and a device, but no values (PyTorch's fake tensors).

What is on the CPU is real, so memories, generators and environments work as ever. A value that is asked for arrives as
0, 1 or ½, a truth as True unless it is of `not …`, of `… == 0` or of every second `… < number` (so that loops end), and
every element is nonzero; gradients are empty tensors of those parameters that the loss reaches. Mixing devices is an
error, as on a GPU; so is a generator of the CPU for numbers on the GPU, which fake tensors themselves let pass.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import MagicMock, patch

import torch
from torch import Tensor
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

aten = torch.ops.aten
DENIALS = (aten.bitwise_not.default, aten.eq.Scalar)  # no matrix is not finite, none is 0
QUANTIFIERS = (aten.any.default, aten.all.default)
real_generator = torch.Generator
gpu_generators: list[torch.Generator] = []  # those that were asked for on the GPU


class Mixed(Exception):
    """Something of the CPU where something of the GPU belongs."""


OF_TORCH = getattr(fake_tensor, "FakeTensorDeviceMismatchError", Mixed)  # PyTorch 2.11 has none
MIXED: tuple[type[Exception], ...] = (Mixed, OF_TORCH)


class Shapes(FakeTensorMode):
    """PyTorch's fake tensors, whatever `torch.cuda.is_available` says."""

    avoid_device_init = True  # type: ignore[assignment]


class Pretended(TorchDispatchMode):
    """Computes with shapes alone what is on the GPU, and with values what is on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes = Shapes(allow_non_fake_inputs=True)
        self.less = 0  # comparisons with a number so far

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        leaves = tree_leaves((args, kwargs))
        fakes = [leaf for leaf in leaves if isinstance(leaf, FakeTensor)]
        if not fakes and not any(isinstance(leaf, torch.device) and leaf.type == "cuda" for leaf in leaves):
            if kwargs.get("pin_memory"):
                kwargs["pin_memory"] = False
            return func(*args, **kwargs)
        if (generator := kwargs.get("generator")) is not None and not of_the_gpu(generator):
            raise Mixed(f"{func} draws on the GPU by a generator of the CPU")
        if func is aten._local_scalar_dense.default:
            number = 0.5 if fakes[0].dtype.is_floating_point else 1
            return not hasattr(fakes[0], "denied") if fakes[0].dtype is torch.bool else number
        if func is aten.nonzero.default:
            return self.new(fakes[0], (fakes[0].numel(), fakes[0].ndim), torch.int64)
        if func is aten.masked_select.default:
            return self.new(fakes[0], (fakes[0].numel(),), fakes[0].dtype)
        if func is aten.bincount.default:  # everything in the bins that were asked for
            return self.new(fakes[0], (args[2],), torch.int64)
        if func is aten.index.Tensor:
            args = (args[0], self._places(args[1]))
        args, kwargs = tree_map(self._enter, (args, kwargs))
        with self.shapes:
            found = func(*args, **kwargs)
        self.less += func is aten.lt.Scalar
        odd = func is aten.lt.Scalar and self.less % 2 == 0
        if odd or func in DENIALS or (func in QUANTIFIERS and hasattr(fakes[0], "denied")):
            found.denied = True
        return tree_map(self._leave, found)

    def new(self, like: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        with self.shapes:
            return torch.empty(shape, dtype=dtype, device=like.device)

    def _places(self, indices: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Return indices without masks, which give a shape that hangs on values: as if they were True all over."""
        found: list[Tensor | None] = []
        for index in indices:
            if index is not None and index.dtype is torch.bool:
                found += [self.new(index, (index.numel(),), torch.int64) for _ in range(index.ndim)]
            else:
                found.append(index)
        return found

    def _enter(self, value: Any) -> Any:
        real = isinstance(value, Tensor) and not isinstance(value, FakeTensor)
        return self.shapes.from_tensor(value) if real else value

    def _leave(self, value: Any) -> Any:
        back = isinstance(value, FakeTensor) and value.device.type == "cpu"
        return torch.zeros(value.shape, dtype=value.dtype) if back else value


def of_the_gpu(generator: torch.Generator) -> bool:
    """Return whether a generator, which PyTorch hands on as another object of the same state, was asked for there."""
    state = generator.get_state()
    return any(torch.equal(state, each.get_state()) for each in gpu_generators)


def leaves_of(roots: Sequence[Tensor]) -> list[Tensor]:
    """Return the leaves that the graphs of these tensors lead to."""
    waiting, seen, found = [root.grad_fn for root in roots if root.grad_fn is not None], set(), []
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        waiting += [following for following, _ in node.next_functions if following is not None]
    return found


def pretended_backward(real: Any) -> Any:
    def backward(loss: Tensor, *args: Any, **kwargs: Any) -> None:
        if not isinstance(loss, FakeTensor):
            real(loss, *args, **kwargs)
            return
        for leaf in leaves_of([loss]):
            leaf.grad = torch.empty_like(leaf) if leaf.grad is None else leaf.grad + torch.empty_like(leaf)

    return backward


def pretended_grad(real: Any) -> Any:
    def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, **kwargs: Any) -> tuple[Tensor | None, ...]:
        roots = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        if not any(isinstance(each, FakeTensor) for each in (*roots, *wanted)):
            return real(outputs, inputs, grad_outputs, **kwargs)
        for root, given in zip(roots, tree_leaves(grad_outputs) if grad_outputs is not None else [], strict=False):
            if given is not None and given.device != root.device:
                raise Mixed(f"autograd.grad of a loss on {root.device} along a vector on {given.device}")
        reached = {id(leaf) for leaf in leaves_of(roots)}
        rows = len(tree_leaves(grad_outputs)[0]) if kwargs.get("is_grads_batched") else None

        def gradient(of: Tensor) -> Tensor | None:
            if of.is_leaf and id(of) not in reached and not kwargs.get("materialize_grads"):
                return None
            value = of.clone() if kwargs.get("create_graph") else torch.empty_like(of)
            return value if rows is None else value.expand(rows, *value.shape)

        return tuple(map(gradient, wanted))

    return grad


def address_of(real: Any) -> Any:
    """Return addresses of memory in which pretended tensors, which have none, differ as real ones do."""
    return lambda storage: storage._cdata if storage.device.type == "meta" else real(storage)


class OfReal(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, real_generator)


class Generator(metaclass=OfReal):
    """Makes generators of the CPU, and remembers those that were asked for on the GPU."""

    def __new__(cls, device: Any = "cpu") -> torch.Generator:  # type: ignore[misc]
        made = real_generator()
        if torch.device(device).type == "cuda":
            gpu_generators.append(made)
        return made


@contextmanager
def pretended_gpu() -> Iterator[None]:
    """Let PyTorch find a GPU, "cuda", in here. Needs a build for CUDA, and no GPU."""
    torch._C._ensureCUDADeviceGuardSet()
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(…, device="cuda") comes by way of the CPU
    with ExitStack() as changes:
        changes.callback(torch._C._set_only_lift_cpu_tensors, False)
        for name, value in {
            "torch.cuda._lazy_init": lambda: None,
            "torch.cuda.is_available": lambda: True,
            "torch.cuda.is_bf16_supported": lambda: True,
            "torch.UntypedStorage.data_ptr": address_of(torch.UntypedStorage.data_ptr),
            "torch.cuda.mem_get_info": lambda *_: (2**36, 2**36),
            "torch.cuda.synchronize": lambda *_: None,
            "torch.cuda.set_device": lambda *_: None,
            "torch.cuda.get_rng_state": lambda *_: torch.get_rng_state(),
            "torch.cuda.set_rng_state": lambda *_: None,
            "torch.cuda.Event": MagicMock,
            "torch.Generator": Generator,
            "torch.Tensor.backward": pretended_backward(torch.Tensor.backward),
            "torch.autograd.grad": pretended_grad(torch.autograd.grad),
            "torch.Tensor.pin_memory": lambda self, *_: self,
        }.items():
            changes.enter_context(patch(name, value))
        changes.enter_context(Pretended())
        yield


@contextmanager
def simulated_gpu() -> Iterator[None]:
    """Let supple find a GPU whose values are unknown: losses are neither finite nor not, deviations stay at ½, and
    parameters are rewritten though they are fake tensors."""
    with ExitStack() as stack:
        for work in ("vision.work.VisionWork", "supervised.SupervisedWork"):
            stack.enter_context(patch(f"supple.tracks.{work}.check", lambda *_, **__: None))
        stack.enter_context(patch("supple.interventions.balance.TOLERANCE", 1.0))
        for user in ("networks.matrices", "metrics.view"):
            stack.enter_context(patch(f"supple.{user}.unfit", lambda tensor: ""))
        stack.enter_context(pretended_gpu())
        yield
