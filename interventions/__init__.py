"""Changes to a network in the middle of training: what they do, when they are applied and what they reset."""

from supple.networks import (
    Layer,
    Learner,
    LinearPair,
    NoSymmetry,
    ScalePair,
    StackedConv2d,
    StackedLayerNorm,
    StackedLinear,
    Units,
    Wiring,
    activation,
    activation_registry,
    chain,
    learner_for,
    normal_like,
    properties,
    redraw,
    scale_pairs,
    snapshot,
    trace_wiring,
    unit_names,
)
from supple.registry import UnknownName, parse_call

from .adam_rel import AdamRel
from .adamo import AdamO
from .balance import balance_layers_, rebalance_
from .base import Intervention, Reinitialization, interventions, make, restructure
from .cbp import ContinualBackprop
from .churn import Chain, LastLoss, OtherMinibatch
from .contract import (
    AS_RELEASED,
    UNIFORM,
    EntropyTemperature,
    ReleasedCode,
    ResetContract,
    contract_for,
    settle,
    zero_slots_,
)
from .cpr import CalibratedPartialResets
from .dash import Dash, EndlessData
from .ewc import EWC
from .fire import Fire, FireScope
from .grammar import HookText, parse_hook_text
from .hare_tortoise import HareTortoise
from .hook import Hook, parse_hook
from .injection import Injectable, Injected, Injection
from .isometry import fire_
from .l2_er import L2EffectiveRank
from .l2_init import L2Init
from .muon import Muon, MuonWithAdam
from .normalize_project import NormalizeProject
from .orthogonalize import orthogonalize
from .parseval import Parseval, parseval_penalty
from .rebalance import Rebalance
from .recycle import recycle_
from .redo import Redo
from .regrama import ReGraMa
from .replay import KeepNewest, ReplayWindow
from .reset import Reset
from .schedule import AtStart, AtTask, Every, Memory, Moment, Schedule, When
from .shrink_perturb import ShrinkPerturb, shrink_perturb_
from .sib import Rescaling, RetainLoss, Sib, sib_
from .snr import SelfNormalizedResets
from .soft_snp import SoftShrinkPerturb
from .spectral import Spectral
from .swap import Swap
from .trac import TRAC
from .upgd import UPGD
from .wasserstein import Wasserstein
from .weight_clip import WeightClip

__all__ = [
    "AS_RELEASED",
    "EWC",
    "TRAC",
    "UNIFORM",
    "UPGD",
    "AdamO",
    "AdamRel",
    "AtStart",
    "AtTask",
    "CalibratedPartialResets",
    "Chain",
    "ContinualBackprop",
    "Dash",
    "EndlessData",
    "EntropyTemperature",
    "Every",
    "Fire",
    "FireScope",
    "HareTortoise",
    "Hook",
    "HookText",
    "Injectable",
    "Injected",
    "Injection",
    "Intervention",
    "KeepNewest",
    "L2EffectiveRank",
    "L2Init",
    "LastLoss",
    "Layer",
    "Learner",
    "LinearPair",
    "Memory",
    "Moment",
    "Muon",
    "MuonWithAdam",
    "NoSymmetry",
    "NormalizeProject",
    "OtherMinibatch",
    "Parseval",
    "ReGraMa",
    "Rebalance",
    "Redo",
    "Reinitialization",
    "ReleasedCode",
    "ReplayWindow",
    "Rescaling",
    "Reset",
    "ResetContract",
    "RetainLoss",
    "ScalePair",
    "Schedule",
    "SelfNormalizedResets",
    "ShrinkPerturb",
    "Sib",
    "SoftShrinkPerturb",
    "Spectral",
    "StackedConv2d",
    "StackedLayerNorm",
    "StackedLinear",
    "Swap",
    "Units",
    "UnknownName",
    "Wasserstein",
    "WeightClip",
    "When",
    "Wiring",
    "activation",
    "activation_registry",
    "balance_layers_",
    "chain",
    "contract_for",
    "fire_",
    "interventions",
    "learner_for",
    "make",
    "normal_like",
    "orthogonalize",
    "parse_call",
    "parse_hook",
    "parse_hook_text",
    "parseval_penalty",
    "properties",
    "rebalance_",
    "recycle_",
    "redraw",
    "restructure",
    "scale_pairs",
    "settle",
    "shrink_perturb_",
    "sib_",
    "snapshot",
    "trace_wiring",
    "unit_names",
    "zero_slots_",
]
