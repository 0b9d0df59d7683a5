"""Names in texts: registries, the call syntax `name(parameter=value)`, and suggestions for mistyped names.

Only the standard library is imported here, so that help, lists and error messages do not need torch.
"""

from .calls import Call, CallSyntaxError, Value, format_value, parse_call
from .faults import (
    KEPT,
    PluginFault,
    calling,
    frames,
    is_interruption,
    looked_up,
    message_of,
    module_of,
    one_line,
    owner_of,
    put_back,
    raised,
    shown,
)
from .installed import BrokenPackage, why
from .names import Registry, UnknownName, did_you_mean, near_names
from .parameters import bind

__all__ = [
    "KEPT",
    "BrokenPackage",
    "Call",
    "CallSyntaxError",
    "PluginFault",
    "Registry",
    "UnknownName",
    "Value",
    "bind",
    "calling",
    "did_you_mean",
    "format_value",
    "frames",
    "is_interruption",
    "looked_up",
    "message_of",
    "module_of",
    "near_names",
    "one_line",
    "owner_of",
    "parse_call",
    "put_back",
    "raised",
    "shown",
    "why",
]
