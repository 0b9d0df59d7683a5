"""Names in texts: registries, the call syntax `name(parameter=value)`, suggestions for mistyped names, texts as shown.

Only the standard library is imported here, so that help, lists and error messages do not need torch.
"""

from .calls import Call, CallSyntaxError, Value, format_value, parse_call
from .faults import (
    KEPT,
    PluginFault,
    brief,
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
)
from .installed import BrokenPackage, why
from .names import Registry, UnknownName, did_you_mean, near_names
from .parameters import bind
from .shown import quoted, shown
from .streams import tell

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
    "brief",
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
    "quoted",
    "raised",
    "shown",
    "tell",
    "why",
]
