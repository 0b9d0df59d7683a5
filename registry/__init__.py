"""Names in texts: registries, the call syntax `name(parameter=value)`, suggestions for mistyped names, texts as shown.

Only the standard library is imported here, so that help, lists and error messages do not need torch.
"""

from .calls import Call, CallSyntaxError, Value, format_value, parse_call
from .installed import BrokenPackage, why
from .names import Registry, UnknownName, did_you_mean, near_names
from .parameters import bind
from .shown import quoted, shown
from .streams import tell

__all__ = [
    "BrokenPackage",
    "Call",
    "CallSyntaxError",
    "Registry",
    "UnknownName",
    "Value",
    "bind",
    "did_you_mean",
    "format_value",
    "near_names",
    "parse_call",
    "quoted",
    "shown",
    "tell",
    "why",
]
