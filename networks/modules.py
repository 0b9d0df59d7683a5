"""Kinds of modules: layers with weights, normalisations, activations, and those through which units keep apart."""

from torch import nn

from .activations import Activation
from .batch_norm import BatchNorm
from .stacked import StackedConv2d, StackedLayerNorm, StackedLinear
from .unit_vectors import Scaler, UnitRMSNorm

LINEAR = (nn.Linear, StackedLinear)
CONV = (nn.Conv1d, nn.Conv2d, nn.Conv3d, StackedConv2d)
STACKED = (StackedLinear, StackedConv2d)
BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, BatchNorm)
INSTANCE_NORM = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
LAYER_NORM = (nn.LayerNorm, nn.RMSNorm, StackedLayerNorm, UnitRMSNorm)
STACKED_NORMS = (StackedLayerNorm, BatchNorm, UnitRMSNorm, Scaler)
NORMS = (*BATCH_NORM, *INSTANCE_NORM, nn.GroupNorm, *LAYER_NORM, Scaler)  # a scaler has a gain for each unit, too
# Modules of torch that call activations inside, where tracing does not look.
OPAQUE = (nn.Transformer, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
# What torch files under its activations and is no elementwise nonlinearity.
NO_UNITS = (nn.MultiheadAttention, nn.Softmax, nn.Softmax2d, nn.Softmin, nn.LogSoftmax)

_ACTIVATIONS = (nn.modules.activation.__name__, "transformers.activations")
# Modules through which every unit keeps to itself: by the file in which torch defines them.
_TRANSPARENT = tuple(f"torch.nn.modules.{kind}" for kind in ("dropout", "pooling", "flatten"))


def is_activation(module: nn.Module) -> bool:
    """Return whether a module is an activation of PyTorch, of `transformers` or of this package."""
    return isinstance(module, Activation) or (
        type(module).__module__ in _ACTIVATIONS and not isinstance(module, NO_UNITS)
    )


def is_transparent(part: nn.Module) -> bool:
    """Return whether every unit keeps to itself in a module of PyTorch: dropout, pooling or a change of shape."""
    return type(part) is nn.Identity or any(kind.__module__ in _TRANSPARENT for kind in type(part).__mro__)


def qualified_name(path: str, name: str) -> str:
    """Return the name, below a module with this path, of one of its submodules or parameters. Either may be ""."""
    return ".".join(part for part in (path, name) if part)
