"""Names in texts: registries, the call syntax `name(parameter=value)`, and suggestions for mistyped names.

Only the standard library is imported here, so that help, lists and error messages do not need torch.
"""

from .calls import Call, CallSyntaxError, Value, format_value, parse_call
from .installed import BrokenPackage, why
from .messages import brief, first_line, message_of
from .names import Registry, UnknownName, did_you_mean, near_names
from .parameters import bind

__all__ = [
    "BrokenPackage",
    "Call",
    "CallSyntaxError",
    "Registry",
    "UnknownName",
    "Value",
    "bind",
    "brief",
    "did_you_mean",
    "first_line",
    "format_value",
    "message_of",
    "near_names",
    "parse_call",
    "why",
]
