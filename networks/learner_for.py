"""The learner of any module, for a training loop of your own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from supple.registry import one_line

from .activation_calls import parse_call_name
from .forward import Forward, check_inputs, has_forward, runner
from .layers import Layer, chain, find_stack
from .learner import Batches, Learner, Probe, no_batches
from .modules import CONV, LINEAR
from .parameters import check_values
from .recording import find_called_units, record
from .redraw import find_equal, may_be_alike, redraw, redraw_by
from .tracing import find_traced_units, unit_names
from .unchanged import measuring, unchanged
from .wiring import Wiring


def learner_for(
    module: nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    probe: Probe | None = None,
    loss: Callable[[], Tensor] | None = None,
    batches: Batches = no_batches,
    layers: tuple[Layer, ...] | None = None,
    units: tuple[str, ...] | None = None,
    followers: tuple[nn.Module, ...] = (),
    wiring: Mapping[str, Wiring] | None = None,
    capabilities: tuple[object, ...] = (),
    forward: Forward = "forward",
    fresh: Callable[[], nn.Module] | None = None,
    name: str = "model",
    seed: int = 0,
) -> Learner:
    """Return a `Learner` for any module, for your own training loop; call it before the first update.

    Args:
        module: The network.
        optimizer: The optimizer that trains it, or None.
        probe: As in `Learner`. If it has inputs already, the network is run on them once, so that what does not work is
            refused here.
        loss: As in `Learner`; needed if there is a probe. Without both, only weights can be measured.
        batches: As in `Learner`, for interventions that use more than one batch (dash, ewc).
        layers: By default `chain(module)`, which is right for a plain feed-forward network. Give the roles yourself if
            heads branch off.
        units: By default the activations that are called before a Linear or Conv layer, each call on its own: modules,
            shared or not, and functions such as F.relu (`unit_names`). Or name the calls or blocks whose outputs count
            as units. A network without units has no metrics of units, and interventions on units refuse it.
        followers: Target networks, into which interventions copy this one.
        wiring: By default `trace_wiring`. Give it yourself, for interventions on single units, if tracing fails.
        capabilities: What single interventions need, such as `Injectable("mlp")` for plasticity injection.
        forward: What runs the network on the probe, if not its `forward`: the name of a method, or a function of the
            module and the inputs, such as `lambda agent, x: (agent.actor(x), agent.critic(x))`.
        fresh: A function that makes the network anew, such as `lambda: Network(width=64)`. It is needed by
            interventions that draw new values (redo, cbp, reset(toward=fresh), …) if the network has parameters that
            no layer draws by its `reset_parameters`, or an initialisation of its own.
        name: The name of the network in messages and logs.
        seed: Seed of the generator of new draws and noise.

    Raises:
        ValueError: In one line. The module has no parameters or cannot be run on the inputs; `units`
            names a layer or something that is not called; `fresh` makes another network.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from supple.interventions import learner_for, make
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> optimizer = torch.optim.Adam(model.parameters())
        >>> x, y = torch.randn(16, 4), torch.randn(16, 2)
        >>> learner = learner_for(model, optimizer, probe=lambda: (x,), loss=lambda: (model(x) - y).square().mean())
        >>> learner.units
        ('1',)
        >>> make("fire").apply(learner)
        ['0.weight', '2.weight']
    """
    check_values(module, name)
    layers = chain(module) if layers is None else layers
    if not any(True for _ in module.parameters()):
        raise ValueError(f"{type(module).__name__} has no parameters to intervene in")
    _check_functions(module, probe, loss, forward)
    inputs = _first_inputs(module, probe)
    known = find_traced_units(module, forward)
    if inputs is not None:
        try:
            called = find_called_units(module, inputs, runner(module, forward))
        except Exception as error:
            why = f"{type(error).__name__}: {one_line(error)}"
            raise ValueError(f"{type(module).__name__} cannot be run on the probe's inputs: {why}") from error
        known = called if known is None else known
    elif known is None:
        known = unit_names(module, forward)
    units = known if units is None else units
    _check_units(module, units, known)
    generator = torch.Generator().manual_seed(seed)
    learner = Learner(
        name,
        module,
        optimizer,
        layers,
        units,
        probe=probe or (lambda: None),
        loss=loss or (lambda: torch.zeros(())),
        generator=generator,
        redraw=dict,
        batches=batches,
        followers=followers,
        wiring=wiring or {},
        capabilities=capabilities,
        forward=forward,
        networks=find_stack(module, layers) or 1,
    )
    if inputs is not None:
        if set(units) - set(known):  # what is known has been called
            record(module, units, inputs, learner.run)
        learner.check_wiring(inputs)
    learner.redraw = _redraw_as_at_start(module, learner.initial, generator, fresh)
    return learner


def _check_functions(module: nn.Module, probe: Any, loss: Any, forward: Forward) -> None:
    """Raise ValueError if probe or loss are no functions, or if nothing runs the network on the probe."""
    if (probe is None) != (loss is None):
        raise ValueError("probe and loss go together: the inputs to measure on, and the loss on them")
    if probe is not None and not (callable(probe) and callable(loss)):
        raise ValueError("probe= and loss= must be functions, such as lambda: …")
    if probe and forward == "forward" and not has_forward(module):
        raise ValueError(
            f"{type(module).__name__} has no forward: name what runs it on the inputs with forward=, a method or a "
            f"function such as lambda module, x: …"
        )


def _check_units(module: nn.Module, units: Sequence[str], known: Sequence[str]) -> None:
    """Raise ValueError if one of the units is a layer; known: the units that there are."""
    modules = dict(module.named_modules())
    for unit in units:
        call = parse_call_name(unit)
        if not call.function and isinstance(part := modules.get(call.path), (*LINEAR, *CONV)):
            raise ValueError(
                f"units=: '{unit}' is a {type(part).__name__}, whose outputs are not those of hidden units: name the "
                f"activation after it, or leave units= out (then they are {', '.join(known)})"
            )


def _first_inputs(module: nn.Module, probe: Probe | None) -> Sequence[Any] | None:
    """Return the inputs of the probe, or None before it has any. The global generators do not move."""
    if probe is None:
        return None
    try:
        with unchanged(module), measuring(module):
            inputs = probe()
    except Exception:  # such as an empty memory; what it has to say comes when the probe is used
        return None
    return check_inputs(inputs)


def _redraw_as_at_start(
    module: nn.Module, initial: Mapping[str, Tensor], generator: torch.Generator, make: Callable[[], nn.Module] | None
) -> Callable[[], Mapping[str, Tensor]]:
    """Return a function that draws new values as they were drawn at step 0, as far as this is known."""
    if make is None:
        return lambda: {n: new for n, new in redraw(module, generator).items() if may_be_alike(new, initial[n])}
    shapes = {name: (*p.shape,) for name, p in module.named_parameters()}
    first, second = (redraw_by(make, torch.Generator().manual_seed(seed)) for seed in (0, 1))
    made = {name: (*value.shape,) for name, value in first.items()}
    if made != shapes:
        name = next(name for name in (*shapes, *made) if shapes.get(name) != made.get(name))
        raise ValueError(f"fresh= makes another network: '{name}' is {made.get(name, 'missing')} there")
    fixed = find_equal(first, second)
    return lambda: {name: value for name, value in redraw_by(make, generator).items() if name not in fixed}
