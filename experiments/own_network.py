"""Networks that a function in a user's own file describes, for example to `supple doctor`."""

import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..interventions import Learner, learner_for
from ..metrics.trainability import tensors_among
from ..networks.recording import evaluating
from ..networks.state_dicts import check_values, fitted_state, listed, not_redrawn
from .errors import UsageError, one_line

FORMS = "(module, inputs), (module, inputs, state dict at initialisation) or (module, inputs, function that makes it)"
DRAWN = (
    "The network at initialisation was drawn by each layer's own reset_parameters. If it is initialised otherwise, "
    "return a function that makes it anew as the third value."
)


def named(text: str, what: str) -> Any:
    """Return what FILE.py:NAME names, after running the file. Modules beside it can be imported.

    what: Beginning of error messages. Raises UsageError, in one line, whatever the file raises."""
    path, _, name = text.rpartition(":")
    file = Path(path)
    if file.suffix != ".py" or not name.isidentifier():
        raise UsageError(f"{what} must be FILE.py:NAME")
    if not file.is_file():
        raise UsageError(f"{what}: no such file: {file}")
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    code = module_from_spec(spec)
    before = sys.modules.get(file.stem)
    sys.modules[file.stem] = code  # as for an imported module; dataclasses look there
    try:
        with beside(file), in_one_line(what):
            spec.loader.exec_module(code)
            return getattr(code, name)
    finally:
        sys.modules.pop(file.stem)
        if before is not None:
            sys.modules[file.stem] = before


@contextmanager
def beside(file: Path) -> Iterator[None]:
    """Let the modules in a file's folder be imported."""
    sys.path.insert(0, str(file.parent))
    try:
        yield
    finally:
        sys.path.remove(str(file.parent))


@contextmanager
def in_one_line(what: str) -> Iterator[None]:
    """Raise UsageError for any exception in this block, with its type and text in one line."""
    try:
        yield
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{what}: {one_line(error)}") from error


def learner_from(text: str) -> tuple[Learner, list[str]]:
    """Return the learner of the network that FILE.py:FUNCTION returns, and remarks about it at initialisation.

    The function returns (module, inputs), and as a third value either the state dict at initialisation or a function
    that makes the network anew. Inputs are a tensor, or a tuple of the arguments of one forward pass. With two values,
    the layers' own `reset_parameters` make the network at initialisation. Parameters of the trained network never take
    the place of those at initialisation.

    Raises:
        UsageError: The file, the function or the network cannot be used, or a parameter cannot be drawn anew; in one
            line.
    """
    function = named(text, text)
    with beside(Path(text.rpartition(":")[0])):
        with in_one_line(text):
            found = function()
        if not isinstance(found, tuple) or len(found) not in (2, 3) or not isinstance(found[0], nn.Module):
            raise UsageError(f"{text} must return {FORMS}")
        module, given, *third = found
        inputs = given if isinstance(given, tuple) else (given,)
        try:
            check_values(module)
            _try_out(module, inputs, text)
            learner = learner_for(module, probe=lambda: inputs, loss=lambda: _loss(module, inputs))
            initial, remarks = _initial(learner, third[0] if third else None, text)
        except UsageError:
            raise
        except ValueError as error:
            raise UsageError(f"{text}: {error}") from error
    learner.initial |= initial
    return learner, remarks


def _try_out(module: nn.Module, inputs: tuple[Any, ...], text: str) -> None:
    kind = type(module)
    if kind.forward is nn.Module.forward:
        raise UsageError(f"{text}: {kind.__name__} has no forward: define it as what maps the inputs to the outputs")
    what = f"{text}: {kind.__name__}(*inputs)"
    with in_one_line(what), evaluating(module):
        outputs = module(*inputs)
        if not (found := tensors_among(outputs)):
            raise UsageError(f"{what} returns no tensor of real numbers, but {_type(outputs)}")
        trained = [p for p in module.parameters() if p.requires_grad]
        if not trained:
            raise UsageError(f"{text}: no parameter of {kind.__name__} is trained: all have requires_grad=False")
        if not any(each.requires_grad for each in found):
            raise UsageError(f"{what} has no gradient: leave out torch.no_grad() and detach()")
        torch.autograd.grad(sum(each.square().mean() for each in found), trained, allow_unused=True)  # type: ignore[arg-type]


def _loss(module: nn.Module, inputs: tuple[Any, ...]) -> Tensor:
    return torch.stack([each.square().mean() for each in tensors_among(module(*inputs))]).sum()


def _initial(learner: Learner, third: Any, text: str) -> tuple[Mapping[str, Tensor], list[str]]:
    """Return the values of the network at initialisation by name, and remarks."""
    if third is None:
        trained = learner.trained().keys()
        frozen = {name for name, _ in learner.module.named_parameters()} - trained
        redrawn = {name: value for name, value in learner.redraw().items() if name not in frozen}
        if kept := sorted(trained - redrawn.keys()):
            raise UsageError(
                f"{text}: {listed(kept)} cannot be drawn anew, because no layer with reset_parameters has it: return a "
                f"third value, the state dict at initialisation or a function that makes the network anew"
            )
        return redrawn, [DRAWN]
    if isinstance(third, Mapping):
        return fitted_state(third, learner.module, "the state dict at initialisation"), []
    if isinstance(third, nn.Module) or not callable(third):
        raise UsageError(f"{text} must return {FORMS}, but its third value is {_type(third)}")
    first, second = (_made(learner.module, third, seed, text) for seed in (0, 1))
    equal = not_redrawn(first, second)
    return first, check_drawn(learner, first, equal, f"{text}: the function that makes the network anew")


def check_drawn(learner: Learner, values: Mapping[str, Tensor], equal: list[str], who: str) -> list[str]:
    """Return a remark about values at initialisation that are equal in two draws, though not constant.

    Raises UsageError if such values are those of trained parameters now. who: what drew them, in error messages."""
    now = learner.trained()
    if kept := [n for n in equal if n in now and torch.equal(values[n].to(now[n]), now[n].detach())]:
        raise UsageError(f"{who} does not draw {listed(kept)}: it returns the values of the trained network")
    return [f"Equal under two seeds, so not redrawn: {listed(equal, len(equal))}."] if equal else []


def of_two_draws(learner: Learner, who: str) -> list[str]:
    """Return `check_drawn` for a learner whose `initial` was drawn, in comparison with one more draw.

    The learner does not change."""
    state = learner.generator.get_state()
    again = learner.redraw()
    learner.generator.set_state(state)
    first = {name: value for name, value in learner.initial.items() if name in again}
    return check_drawn(learner, first, not_redrawn(first, again), who)


def _made(module: nn.Module, make: Any, seed: int, text: str) -> dict[str, Tensor]:
    what = f"{text}: the function that makes the network anew"
    kept = {name: tensor.detach().clone() for name, tensor in _tensors(module).items()}
    with in_one_line(what), _seeded(seed):
        new = make()
    if not isinstance(new, nn.Module):
        raise UsageError(f"{what} must return a module, but returned {_type(new)}")
    mine = {tensor.untyped_storage().data_ptr() for tensor in _tensors(module).values() if tensor.numel()}
    if any(tensor.untyped_storage().data_ptr() in mine for tensor in _tensors(new).values() if tensor.numel()):
        with torch.no_grad():
            for name, tensor in _tensors(module).items():
                tensor.copy_(kept[name])
        raise UsageError(f"{what} returned the trained network itself, or parts of it: it must make a new one")
    check_values(new)
    return fitted_state(new.state_dict(), module, "the network that the function makes anew")


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in module.state_dict().items() if isinstance(tensor, Tensor)}


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the global generators of PyTorch, NumPy and Python temporarily, and restore their states afterwards."""
    states = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            random.seed(seed)
            yield
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])


def _type(value: Any) -> str:
    return f"of type {type(value).__name__}"
