"""Building blocks of networks and tools to inspect them, used by interventions and metrics."""

from .activations import Units, activation, derivative, initial_gain, parse_activation, properties, set_generators
from .activations import activations as activation_registry
from .adam import Adam
from .inference import direct
from .layers import Layer, Role, Scope, chain
from .learner import Learner, no_batches
from .learner_for import learner_for
from .linear_pairs import LinearPair
from .matrices import Matrices, Weight, Written, weight_matrices
from .members import normal_like
from .normalization import (
    Normalization,
    SpectralLinear,
    StackedSpectralLinear,
    hidden_linear,
    hidden_norm,
)
from .parameters import copy_module_, restore_, snapshot, stack_networks
from .recording import Called, record
from .redraw import redraw
from .renewal import renew_statistics_
from .rmsprop import CentredRMSprop
from .scale import isometry_scale
from .stacked import StackedConv2d, StackedLayerNorm, StackedLinear
from .symmetry import NoSymmetry, ScalePair, scale_pairs
from .tracing import unit_names
from .unchanged import evaluating, unchanged
from .wiring import Wiring, trace_wiring

__all__ = [
    "Adam",
    "Called",
    "CentredRMSprop",
    "Layer",
    "Learner",
    "LinearPair",
    "Matrices",
    "NoSymmetry",
    "Normalization",
    "Role",
    "ScalePair",
    "Scope",
    "SpectralLinear",
    "StackedConv2d",
    "StackedLayerNorm",
    "StackedLinear",
    "StackedSpectralLinear",
    "Units",
    "Weight",
    "Wiring",
    "Written",
    "activation",
    "activation_registry",
    "chain",
    "copy_module_",
    "derivative",
    "direct",
    "evaluating",
    "hidden_linear",
    "hidden_norm",
    "initial_gain",
    "isometry_scale",
    "learner_for",
    "no_batches",
    "normal_like",
    "parse_activation",
    "properties",
    "record",
    "redraw",
    "renew_statistics_",
    "restore_",
    "scale_pairs",
    "set_generators",
    "snapshot",
    "stack_networks",
    "trace_wiring",
    "unchanged",
    "unit_names",
    "weight_matrices",
]
