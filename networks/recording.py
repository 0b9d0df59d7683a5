"""Recording of the outputs of modules and of activation functions in one forward pass."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .activation_calls import ActivationCall, function_name, parse_call_name
from .modules import CONV, LINEAR, STACKED, is_activation
from .unchanged import Runner, copy_inputs, unchanged
from .wiring import Wiring


@dataclass(frozen=True)
class Called:
    """One call: the module or function, its first input (None if it has no tensor) and its output."""

    made_by: Callable[..., Any]
    input: Tensor | None
    output: Any


See = Callable[[Called], object]


def run_watched(
    module: nn.Module, inputs: Sequence[Any], watch: Mapping[str, See], forward: Runner | None = None
) -> Any:
    """Return `module(*inputs)` in evaluation mode, and pass calls of the given names to functions.

    activation_calls.py has the names. The network does not change (see `unchanged`). Nothing happens for a call that it
    does not make.

    Args:
        module: The network.
        inputs: The positional arguments of the pass.
        watch: Name of a call → the function that is given the call.
        forward: What is called instead of the module.
    """
    calls = {parse_call_name(name): name for name in watch}

    def pass_on(call: ActivationCall, called: Called) -> None:
        if call in calls:
            watch[calls[call]](called)

    copies = copy_inputs(module, inputs)
    with unchanged(module, forward), _watch(module, calls, pass_on):
        return (forward or module)(*copies)


def find_called_units(module: nn.Module, inputs: Sequence[Any], forward: Runner | None = None) -> tuple[str, ...]:
    """Return the names of the activations that are called before the last Linear or Conv layer, in forward order."""
    met: list[str] = []
    hidden = 0

    def note(call: ActivationCall, called: Called) -> None:
        nonlocal hidden
        if isinstance(called.made_by, (*LINEAR, *CONV)):
            hidden = len(met)
        elif call.function or (isinstance(called.made_by, nn.Module) and is_activation(called.made_by)):
            met.append(str(call))

    copies = copy_inputs(module, inputs)
    with unchanged(module, forward), _watch(module, None, note), torch.no_grad():
        (forward or module)(*copies)
    return tuple(met[:hidden])


@contextmanager
def _watch(
    module: nn.Module, calls: Iterable[ActivationCall] | None, see: Callable[[ActivationCall, Called], object]
) -> Iterator[None]:
    """Call `see` for calls while the network runs: those of the given modules and functions, or all if None.

    Functions that an activation module or a layer calls inside are its own business.
    """
    paths = None if calls is None else {call.path for call in calls}
    names = {name: part for name, part in module.named_modules() if paths is None or name in paths}
    functions = calls is None or any(call.function for call in calls)
    with ExitStack() as stack:
        for name, part in names.items():
            for handle in _hang_hooks(part, name, see):
                stack.callback(handle.remove)
        if functions:
            places: list[tuple[str, nn.Module]] = [("", module)]
            for name, part in module.named_modules():
                before = part.register_forward_pre_hook(lambda part, _, name=name: places.append((name, part)))
                after = part.register_forward_hook(partial(_leave, places), always_call=True)
                stack.callback(before.remove)
                stack.callback(after.remove)
            stack.enter_context(_Functions(places, see))
        yield


def _hang_hooks(part: nn.Module, name: str, see: Callable[[ActivationCall, Called], object]) -> Iterator[Any]:
    """Yield the handles of hooks that pass on the calls of a module."""
    written: list[Tensor | None] = []  # the inputs of a module that works in place, which overwrites them
    count = 0

    def before(part: nn.Module, args: Any) -> None:
        written.append(_first_tensor(args, copied=True))

    def after(part: nn.Module, args: Any, output: Any) -> None:
        nonlocal count
        count += 1
        tensor = written.pop() if written else _first_tensor(args)
        see(ActivationCall(name, "", count), Called(part, tensor, output))

    if part.__dict__.get("inplace", False):
        yield part.register_forward_pre_hook(before)
    yield part.register_forward_hook(after)


def _first_tensor(args: Any, copied: bool = False) -> Tensor | None:
    tensor = args[0] if args and isinstance(args[0], Tensor) else None
    return tensor.clone() if copied and tensor is not None else tensor


def _leave(places: list[tuple[str, nn.Module]], *_: Any) -> None:
    places.pop()


class _Functions(TorchFunctionMode):
    """Passes on the calls of activation functions, with the module in whose forward pass they are made."""

    def __init__(self, places: list[tuple[str, nn.Module]], see: Callable[[ActivationCall, Called], object]) -> None:
        super().__init__()
        self.places, self.see = places, see
        self.counts: Counter[tuple[str, str]] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        path, part = self.places[-1]
        name = function_name(func)
        if not name or not args or not isinstance(args[0], Tensor) or is_activation(part):
            return func(*args, **kwargs)
        x = args[0]
        in_place = func.__name__.endswith("_") or kwargs.get("inplace", False)
        before = x.clone() if in_place else x
        output = func(*args, **kwargs)
        self.counts[path, name] += 1
        called = Called(lambda x: func(x, *args[1:], **kwargs), before, output)
        self.see(ActivationCall(path, name, self.counts[path, name]), called)
        return output


@torch.no_grad()
def record(
    module: nn.Module, names: Sequence[str], inputs: Sequence[Any], forward: Runner | None = None
) -> dict[str, Called]:
    """Run `module(*inputs)` in evaluation mode, and return calls with copies of their tensors, by name.

    activation_calls.py has the names. The network does not change.

    Args:
        module: The network.
        names: The names of submodules, or of calls of activations.
        inputs: The positional arguments of the pass.
        forward: What is called instead of the module.

    Raises:
        ValueError: The network does not make one of these calls on these inputs.
    """
    seen: dict[str, Called] = {}

    def keep(name: str, called: Called) -> None:
        if not isinstance(called.output, Tensor):
            raise ValueError(f"'{name}' returns a {type(called.output).__name__}, not a tensor")
        # copies, since an operation after them may work in place
        tensor = None if called.input is None else called.input.detach().clone()
        seen[name] = Called(called.made_by, tensor, called.output.detach().clone())

    run_watched(module, inputs, {name: partial(keep, name) for name in names}, forward)
    if missing := [name for name in names if name not in seen]:
        raise ValueError(f"{type(module).__name__} does not call '{missing[0]}' on these inputs")
    return {name: seen[name] for name in names}


@torch.no_grad()
def find_misread_units(
    module: nn.Module, wiring: Mapping[str, Wiring], inputs: Sequence[Any], forward: Runner | None = None
) -> dict[str, str]:
    """Return the units whose columns in a layer after them are not where the wiring implies, with the reasons.

    Tracing does not know shapes, so a `view` may have mixed the rows, or a layer may read pooled units or another axis
    than theirs. A reason completes a sentence that begins with the unit's name. Units that the inputs do not reach are
    right.

    Args:
        module: The network.
        wiring: The wiring that was found by tracing.
        inputs: The positional arguments of a forward pass.
        forward: What is called instead of the module.
    """
    shapes: dict[tuple[str, str], torch.Size] = {}  # of the outputs of units, and of the inputs of layers

    def note(of: str, name: str, called: Called) -> None:
        value = getattr(called, of)
        if isinstance(value, Tensor):
            shapes[of, name] = value.shape

    layers = {name: partial(note, "input", name) for wires in wiring.values() for name in wires.outgoing}
    run_watched(module, inputs, layers | {unit: partial(note, "output", unit) for unit in wiring}, forward)
    reasons = {}
    for unit, wires in wiring.items():
        if (units := shapes.get(("output", unit))) is None:
            continue
        if len(units) < 2:
            reasons[unit] = f"has no rows for inputs: its outputs are {tuple(units)}"
            continue
        before = module.get_submodule(wires.incoming[0])
        for name in wires.outgoing:
            read = shapes.get(("input", name))
            if read is not None and not _fits(before, units, module.get_submodule(name), read):
                reasons[unit] = (
                    f"has no private outgoing weights: '{name}' reads {tuple(read)}, in which the units of "
                    f"{tuple(units)} have no columns of their own"
                )
    return reasons


def _fits(before: nn.Module, units: torch.Size, after: nn.Module, read: torch.Size) -> bool:
    """Return whether a layer reads the units behind another layer in columns of their own, by shapes."""
    rows = 1 + isinstance(before, STACKED)  # axes before that of the channels
    if not isinstance(before, CONV):
        if isinstance(after, CONV):
            return len(units) == rows + 1 and units == read[: rows + 1] and units.numel() == read.numel()
        return units[-1] == read[-1]
    if isinstance(after, CONV):
        return len(units) == len(read) and units[: rows + 1] == read[: rows + 1]
    return len(units) > rows and len(read) == rows + 1 and units[:rows] == read[:rows]
