"""Names in texts: registries, the call syntax `name(parameter=value)`, suggestions for mistyped names, texts as shown.

Only the standard library is imported here, so that help, lists and error messages do not need torch.
"""

from .calls import Call, CallSyntaxError, Value, format_value, parse_call
from .faults import (
    KEPT,
    OWN,
    PluginFault,
    calling,
    describe_raised,
    frames,
    look_up,
    module_of,
    owner_of,
    put_back,
    require_callable,
    summary,
)
from .installed import BrokenPackage, describe_import_error
from .messages import brief, first_line, message_of, one_line
from .names import Registry, UnknownName, did_you_mean, near_names
from .schema import bind
from .shown import quoted, shown
from .signals import is_interruption
from .streams import tell

__all__ = [
    "KEPT",
    "OWN",
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
    "describe_import_error",
    "describe_raised",
    "did_you_mean",
    "first_line",
    "format_value",
    "frames",
    "is_interruption",
    "look_up",
    "message_of",
    "module_of",
    "near_names",
    "one_line",
    "owner_of",
    "parse_call",
    "put_back",
    "quoted",
    "require_callable",
    "shown",
    "summary",
    "tell",
]
