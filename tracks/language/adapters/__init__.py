"""Adapters for continual learning: MoRAM (arXiv 2506.21035), and the methods with which its paper compares it."""

from .atoms import Pruned, activation_maps, activation_mass, parameter_table, prune
from .base import Adapter, adapters_by_kind
from .files import load_adapters, save_adapters
from .lora import IncLoRA, OLoRA, SeqLoRA
from .mixture import ExternalRouter, MoELoRA
from .moram import MoRAM
from .wrap import adapters, add_task, maker, merge, penalty, unwrap, wrap, wrap_moram

__all__ = [
    "Adapter",
    "ExternalRouter",
    "IncLoRA",
    "MoELoRA",
    "MoRAM",
    "OLoRA",
    "Pruned",
    "SeqLoRA",
    "activation_maps",
    "activation_mass",
    "adapters",
    "adapters_by_kind",
    "add_task",
    "load_adapters",
    "maker",
    "merge",
    "parameter_table",
    "penalty",
    "prune",
    "save_adapters",
    "unwrap",
    "wrap",
    "wrap_moram",
]
