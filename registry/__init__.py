"""Names in texts: registries, the call syntax `name(parameter=value)`, suggestions for mistyped names, messages.

Only the standard library is imported here, so that help, lists and error messages do not need torch.
"""

from .calls import Call, CallSyntaxError, Value, format_value, parse_call
from .faults import OWN, naming, notes_of, owner_of
from .messages import one_line, quoted, summary
from .names import BrokenPackage, Registry, UnknownName, describe_unknown, did_you_mean, near_names
from .schema import bind

__all__ = [
    "OWN",
    "BrokenPackage",
    "Call",
    "CallSyntaxError",
    "Registry",
    "UnknownName",
    "Value",
    "bind",
    "describe_unknown",
    "did_you_mean",
    "format_value",
    "naming",
    "near_names",
    "notes_of",
    "one_line",
    "owner_of",
    "parse_call",
    "quoted",
    "summary",
]
