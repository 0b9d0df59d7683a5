"""Networks that a function in a user's own file describes, for example to `supple doctor`."""

import copy
import inspect
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from supple.interventions import Learner, learner_for
from supple.metrics.trainability import list_tensors
from supple.networks.forward import has_forward, methods, runner
from supple.networks.parameters import check_values, saved_buffers
from supple.networks.redraw import borrow_generators, find_equal, redraw
from supple.networks.state_dicts import fit_state, list_names
from supple.networks.unchanged import keep_states, unchanged
from supple.registry import naming, summary
from supple.registry.errors import UsageError

FORMS = "(module, inputs), (module, inputs, state dict at initialisation) or (module, inputs, function that makes it)"
WIDTH, ROWS = 8, 256  # of the inputs on which a network is looked at that reads any number of them
DRAWN = (
    "The network at initialisation was drawn by each layer's own reset_parameters. If it is initialised otherwise, "
    "return a function that makes it anew as the third value."
)


def load_named(text: str, what: str) -> Any:
    """Return what FILE.py:NAME names, after running the file. Modules beside it can be imported.

    Args:
        text: FILE.py:NAME.
        what: Beginning of error messages.

    Raises:
        UsageError: There is no such file, or it does not define the name.
        Exception: What the file raises.
    """
    path, _, name = text.rpartition(":")
    file = Path(path)
    if file.suffix != ".py" or not name.isidentifier():
        raise UsageError(f"{what} must be FILE.py:NAME")
    if not file.is_file():
        raise UsageError(f"{what}: no such file: {file}")
    with importing_beside(file), naming(what):
        defined = runpy.run_path(str(file), run_name=file.stem)
    if name not in defined:
        raise UsageError(f"{what}: {file} does not define {name}")
    return defined[name]


@contextmanager
def importing_beside(file: Path) -> Iterator[None]:
    """Let the modules in a file's folder be imported."""
    sys.path.insert(0, str(file.parent))
    try:
        yield
    finally:
        sys.path.remove(str(file.parent))


def learner_from(text: str, forward: str = "forward") -> tuple[Learner, list[str]]:
    """Return the learner of the network that FILE.py:FUNCTION returns, and remarks about it at initialisation.

    The function returns (module, inputs), and as a third value either the state dict at initialisation or a function
    that makes the network anew. Inputs are a tensor, or a tuple of the arguments of one forward pass. With two values,
    the layers' own `reset_parameters` make the network at initialisation. Parameters of the trained network never take
    the place of those at initialisation.

    A function that needs a number, like those of `--encoder`, is called with 8, and returns the network alone. Inputs
    are random rows of so many numbers then.

    Args:
        text: FILE.py:FUNCTION.
        forward: The method that runs the network on the inputs.

    Raises:
        UsageError: The network cannot be used, or a parameter cannot be redrawn.
        Exception: What the file, the function or the network raises.
    """
    function = load_named(text, text)
    with importing_beside(Path(text.rpartition(":")[0])):
        with naming(text):
            returned = _call(function)
        if not isinstance(returned, tuple) or len(returned) not in (2, 3) or not isinstance(returned[0], nn.Module):
            raise UsageError(f"{text} must return {FORMS}, but returned {summary(returned)}")
        module, inputs_given, *third = returned
        inputs = inputs_given if isinstance(inputs_given, tuple) else (inputs_given,)
        try:
            check_values(module, type(module).__name__)
            if forward == "forward" and not has_forward(module):
                choice = f": name a method with --forward ({', '.join(methods(module))})" if methods(module) else ""
                raise UsageError(f"{text}: {type(module).__name__} has no forward{choice}")
            run = runner(module, forward)
            _try_out(module, run, inputs, f"{text}: {type(module).__name__}")
            learner = learner_for(module, probe=lambda: inputs, loss=lambda: _loss(run(*inputs)), forward=forward)
            return learner, _initialise(learner, third[0] if third else None, text)
        except UsageError:
            raise
        except ValueError as error:
            raise UsageError(f"{text}: {error}") from error


def _call(function: Callable[..., Any]) -> Any:
    """Return what a function returns; for one that makes a network for so many inputs, what it should return."""
    if all(each.default is not each.empty for each in inspect.signature(function).parameters.values()):
        return function()
    with borrow_generators(0):
        return function(WIDTH), torch.randn(ROWS, WIDTH), lambda: function(WIDTH)


def _try_out(module: nn.Module, run: Callable[..., Any], inputs: tuple[Any, ...], what: str) -> None:
    """Run a network forward and backward once. Raises UsageError if that fails, or nothing in it can be trained."""
    trained = [p for p in module.parameters() if p.requires_grad]
    if not trained:
        raise UsageError(f"{what} has no parameter that is trained: all have requires_grad=False")
    for leaf in tree_leaves(inputs):
        if isinstance(leaf, Tensor | np.ndarray):
            tensor = torch.as_tensor(leaf)
            if not tensor.numel() or not tensor.isfinite().all():
                raise UsageError(f"{what} cannot be examined: its inputs are empty, or contain NaN or infinity")
    with unchanged(module):
        with naming(f"{what} on the inputs"):
            outputs = run(*inputs)
        if not (tensors := list_tensors(outputs)):
            raise UsageError(f"{what} returns no tensor of real numbers, but {summary(outputs)}")
        if not any(output.requires_grad for output in tensors):
            raise UsageError(f"{what} returns outputs without a gradient: leave out torch.no_grad() and detach()")
        torch.autograd.grad(_loss(outputs), trained, allow_unused=True)


def _loss(outputs: Any) -> Tensor:
    return torch.stack([output.square().mean() for output in list_tensors(outputs)]).sum()


def _initialise(learner: Learner, third: Any, text: str) -> list[str]:
    """Give a learner its values at initialisation, and its way to draw them if a function makes them.

    Returns remarks."""
    module = learner.module
    if third is None:
        values, remarks = _redraw_by_layers(learner, text)
    elif isinstance(third, Mapping):
        what, remarks = "the state dict at initialisation", []
        values = fit_state(third, module, what)
        if shared := [name for name in _shared_parts(module, third) if name in learner.trained()]:
            raise UsageError(
                f"{text}: '{shared[0]}' in {what} is that of the trained network itself: keep a copy of step 0, "
                f"copy.deepcopy(module.state_dict())"
            )
        if flawed := [name for name, value in values.items() if not value.isfinite().all()]:
            raise UsageError(f"{text}: '{flawed[0]}' in {what} has NaN or infinity")
    else:
        what = f"{text}: the function that makes the network anew"
        values, second = (_make_anew(module, third, seed, what) for seed in (0, 1))
        equal = find_equal(values, second)
        remarks = redraw_equal(learner, values, equal, what)

        def redraw_anew() -> dict[str, Tensor]:
            seed = int(torch.randint(2**62, (), generator=learner.generator))
            return {name: value for name, value in _make_anew(module, third, seed, what).items() if name not in equal}

        learner.redraw = redraw_anew
    learner.initial |= {name: value for name, value in values.items() if name in learner.initial}
    return remarks


def _redraw_by_layers(learner: Learner, text: str) -> tuple[dict[str, Tensor], list[str]]:
    """Return what layers draw themselves, and remarks on what stays. Frozen parameters stay."""
    module, trained = learner.module, learner.trained().keys()
    drawn = {name: value for name, value in redraw(module, learner.generator).items() if name in trained}
    if kept := sorted(trained - drawn.keys()):
        raise UsageError(
            f"{text}: {list_names(kept)} cannot be redrawn, because no layer draws it by reset_parameters: return a "
            f"third value, the state dict at initialisation or a function that makes the network anew"
        )
    statistics = reset_statistics(module)
    stays = [name for name in saved_buffers(module) if name not in statistics]
    return {**drawn, **statistics}, [DRAWN, *([f"Buffers as they are now: {list_names(stays)}."] if stays else [])]


def reset_statistics(module: nn.Module) -> dict[str, Tensor]:
    """Return the running statistics with which normalisation layers begin, by name. The module does not change."""
    statistics: dict[str, Tensor] = {}
    for path, part in module.named_modules():
        if callable(getattr(part, "reset_running_stats", None)):
            new = copy.deepcopy(part)
            new.reset_running_stats()
            for name, value in new.named_buffers(recurse=False):
                statistics[f"{path}.{name}" if path else name] = value
    return statistics


def redraw_equal(learner: Learner, values: dict[str, Tensor], equal: list[str], who: str) -> list[str]:
    """Return a remark on values at initialisation that are equal in two draws, though not constant.

    Those that the trained network has now are exchanged in `values` for draws of their layers, because they may be
    trained.

    Args:
        learner: The trained network.
        values: The values of one draw by name; some are exchanged.
        equal: The names of the values that are equal in both draws.
        who: What drew them, in error messages.

    Raises:
        UsageError: No layer draws one that must be exchanged.
    """
    module, trained = learner.module, learner.trained()
    drawn = reset_statistics(module) | (redraw(module, torch.Generator().manual_seed(0)) if equal else {})
    now = trained | {name: buffer for name, buffer in saved_buffers(module).items() if name in drawn}
    kept = [n for n in equal if n in now and torch.equal(values[n].to(now[n]), now[n].detach())]
    if lost := [name for name in kept if name not in drawn]:
        raise UsageError(f"{who} does not draw {list_names(lost)}: it returns the values of the trained network")
    values |= {name: drawn[name].to(now[name]) for name in kept}
    instead = f" At initialisation, {list_names(kept)} are drawn by their layers instead." if kept else ""
    return [f"Equal under two seeds, so not redrawn: {list_names(equal, len(equal))}.{instead}"] if equal else []


def redraw_initial(learner: Learner, who: str) -> list[str]:
    """Return the remark of `redraw_equal` for a learner whose `initial` was drawn, in comparison with one more draw.

    Generators do not move."""
    with keep_states([learner.generator]):
        again = learner.redraw()
    first = {name: value for name, value in learner.initial.items() if name in again}
    return redraw_equal(learner, learner.initial, find_equal(first, again), who)


def _make_anew(module: nn.Module, make: Callable[[], Any], seed: int, what: str) -> dict[str, Tensor]:
    """Return the state of a new network of `make`, drawn from a seed, under the names of the trained module."""
    with naming(what), borrow_generators(seed):
        new = make()
    if _shared_parts(module, new.state_dict()):
        raise UsageError(f"{what} returned the trained network itself, or parts of it: it must make a new one")
    return fit_state(new.state_dict(), module, "the network that the function makes anew")


def _shared_parts(module: nn.Module, state: Mapping[str, Any]) -> list[str]:
    """Return the names of a network's tensors whose memory is that of one in a state dict."""
    theirs = {value.untyped_storage().data_ptr() for value in state.values() if isinstance(value, Tensor)} - {0}
    own = {name: value for name, value in module.state_dict().items() if isinstance(value, Tensor)}
    return [name for name, value in own.items() if value.untyped_storage().data_ptr() in theirs]
