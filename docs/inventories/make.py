"""Write the inventories of this folder: the names of other projects that supple's signatures and pages refer to.

python docs/inventories/make.py

Their full inventories can be downloaded from the projects' sites; these need no network and no update. A name is given
with the page on which the project documents it. Add a name if the build reports that its reference target is missing.
"""

import zlib
from pathlib import Path

TORCH = "generated/{name}.html#{name}"
NUMPY = "reference/generated/{name}.html#{name}"

# project → role → name as Python knows it → its page, in which {name} stands for the documented name, and that name
NAMES: dict[str, dict[str, dict[str, tuple[str, str]]]] = {
    "python": {
        "class": {
            **{f"collections.abc.{name}": ("library/collections.abc.html#{name}", f"collections.abc.{name}") for name in (
                "Callable", "Iterable", "Iterator", "Mapping", "MutableMapping", "Sequence", "Generator", "Set"
            )},
            **{name: ("library/functions.html#{name}", name) for name in ("bool", "float", "int", "object")},
            **{name: ("library/stdtypes.html#{name}", name) for name in ("dict", "list", "set", "str", "tuple", "bytes")},
            "pathlib.Path": ("library/pathlib.html#{name}", "pathlib.Path"),
            "abc.ABC": ("library/abc.html#{name}", "abc.ABC"),
            "enum.Enum": ("library/enum.html#{name}", "enum.Enum"),
            "type": ("library/functions.html#{name}", "type"),
        },
        "exception": {name: ("library/exceptions.html#{name}", name) for name in (
            "ValueError", "RuntimeError", "ImportError", "OSError", "KeyError", "TypeError", "AttributeError", "Exception"
        )},
        "data": {f"typing.{name}": ("library/typing.html#{name}", f"typing.{name}") for name in (
            "Any", "Literal", "Annotated", "NamedTuple", "Generic", "Protocol", "TypeVar"
        )} | {"None": ("library/constants.html#{name}", "None")},
    },
    "numpy": {
        "class": {
            **{f"numpy.{name}": (NUMPY, f"numpy.{name}") for name in ("ndarray", "dtype")},
            **{f"numpy.{name}": ("reference/arrays.scalars.html#{name}", f"numpy.{name}") for name in (
                "float32", "float64", "int64", "floating", "bool"
            )},
            "numpy.typing.ArrayLike": ("reference/typing.html#{name}", "numpy.typing.ArrayLike"),
            "numpy.random._generator.Generator": ("reference/random/generator.html#{name}", "numpy.random.Generator"),
        },
    },
    "torch": {
        "class": {
            "torch.Tensor": ("tensors.html#{name}", "torch.Tensor"),
            "torch.dtype": ("tensor_attributes.html#{name}", "torch.dtype"),
            "torch.device": ("tensor_attributes.html#{name}", "torch.device"),
            "torch.Size": ("size.html#{name}", "torch.Size"),
            "torch._C.Generator": (TORCH, "torch.Generator"),
            "torch.nn.modules.module.Module": (TORCH, "torch.nn.Module"),
            "torch.nn.modules.linear.Linear": (TORCH, "torch.nn.Linear"),
            "torch.nn.parameter.Parameter": ("generated/torch.nn.parameter.Parameter.html#{name}", "torch.nn.parameter.Parameter"),
            "torch.optim.optimizer.Optimizer": ("optim.html#{name}", "torch.optim.Optimizer"),
            "torch.distributions.distribution.Distribution": (
                "distributions.html#{name}", "torch.distributions.distribution.Distribution"
            ),
        },
    },
    "gymnasium": {
        "class": {
            "gymnasium.core.Env": ("api/env/#{name}", "gymnasium.Env"),
            "gymnasium.core.Wrapper": ("api/wrappers/#{name}", "gymnasium.Wrapper"),
            "gymnasium.core.ObservationWrapper": ("api/wrappers/observation_wrappers/#{name}", "gymnasium.ObservationWrapper"),
            "gymnasium.spaces.space.Space": ("api/spaces/#{name}", "gymnasium.spaces.Space"),
        },
    },
}  # fmt: skip


def inventory(project: str) -> bytes:
    """Return an inventory in Sphinx's format, version 2, in which a name is listed as Python and as its page know it."""
    head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
    head += "# The remainder of this file is compressed using zlib.\n"
    lines = {
        f"{known} py:{role} 1 {page.format(name=documented)} -"
        for role, names in NAMES[project].items()
        for name, (page, documented) in names.items()
        for known in (name, documented)
    }
    return head.encode() + zlib.compress("".join(f"{line}\n" for line in sorted(lines)).encode(), 9)


if __name__ == "__main__":
    for project in NAMES:
        Path(__file__).with_name(f"{project}.inv").write_bytes(inventory(project))
