"""What can be done to a network in the middle of training, when, and what it resets."""

from .activations import activation, initial_gain, parse_activation
from .activations import activations as activation_registry
from .base import Intervention, Reinitialization, interventions, make, restructure
from .contract import AS_RELEASED, UNIFORM, ResetContract, contract_for, settle, zero_slots_
from .fire import Fire
from .grammar import HookSyntaxError, HookText, parse_call, parse_hook_text
from .hook import Hook, parse_hook
from .injection import Injected, Injection
from .isometry import fire_
from .l2_init import L2Init
from .learner import Layer, Learner, Wiring, chain, learner_for, plain_wiring, snapshot, unit_names
from .orthogonalize import orthogonalize
from .redo import Redo, redo_
from .redraw import redraw
from .registry import Registry, UnknownName, did_you_mean
from .reset import Reset
from .schedule import AtStart, Every, Moment, Schedule, When
from .shrink_perturb import ShrinkPerturb, shrink_perturb_
from .stacked import StackedLayerNorm, StackedLinear

__all__ = [
    "AS_RELEASED",
    "UNIFORM",
    "AtStart",
    "Every",
    "Fire",
    "Hook",
    "HookSyntaxError",
    "HookText",
    "Injected",
    "Injection",
    "Intervention",
    "L2Init",
    "Layer",
    "Learner",
    "Moment",
    "Redo",
    "Registry",
    "Reinitialization",
    "Reset",
    "ResetContract",
    "Schedule",
    "ShrinkPerturb",
    "StackedLayerNorm",
    "StackedLinear",
    "UnknownName",
    "When",
    "Wiring",
    "activation",
    "activation_registry",
    "chain",
    "contract_for",
    "did_you_mean",
    "fire_",
    "initial_gain",
    "interventions",
    "learner_for",
    "make",
    "orthogonalize",
    "parse_activation",
    "parse_call",
    "parse_hook",
    "parse_hook_text",
    "plain_wiring",
    "redo_",
    "redraw",
    "restructure",
    "settle",
    "shrink_perturb_",
    "snapshot",
    "unit_names",
    "zero_slots_",
]
