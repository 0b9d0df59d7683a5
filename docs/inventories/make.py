"""Write the inventories of this folder: the names of other projects that supple's signatures and pages refer to.

python docs/inventories/make.py

Their full inventories can be downloaded from the projects' sites; these need no network and no update. A name is given
with the page on which the project documents it. Add a name if the build reports that its reference target is missing.
"""

import zlib
from pathlib import Path


def _same(page: str, package: str, names: str) -> dict[str, tuple[str, str]]:
    """Return entries of names that Python and the documentation know alike; `package` ends with a dot, or is empty."""
    return {f"{package}{name}": (page, f"{package}{name}") for name in names.split()}


# Project → role → name as Python knows it → its page and its documented name, for which {name} stands in the page.
NAMES: dict[str, dict[str, dict[str, tuple[str, str]]]] = {
    "python": {
        "class": {
            **_same(
                "library/collections.abc.html#{name}",
                "collections.abc.",
                "Callable Generator Iterable Iterator Mapping MutableMapping Sequence Set",
            ),
            **_same("library/functions.html#{name}", "", "bool float int object type"),
            **_same("library/stdtypes.html#{name}", "", "bytes dict list set str tuple"),
            **_same("library/pathlib.html#{name}", "pathlib.", "Path"),
            **_same("library/abc.html#{name}", "abc.", "ABC"),
            **_same("library/enum.html#{name}", "enum.", "Enum"),
        },
        "exception": _same(
            "library/exceptions.html#{name}",
            "",
            "AttributeError Exception ImportError KeyError OSError RuntimeError TypeError ValueError",
        ),
        "data": {
            **_same(
                "library/typing.html#{name}", "typing.", "Annotated Any Generic Literal NamedTuple Protocol TypeVar"
            ),
            **_same("library/constants.html#{name}", "", "None"),
        },
    },
    "numpy": {
        "class": {
            **_same("reference/generated/{name}.html#{name}", "numpy.", "dtype ndarray"),
            **_same("reference/arrays.scalars.html#{name}", "numpy.", "bool float32 float64 floating int64"),
            **_same("reference/typing.html#{name}", "numpy.typing.", "ArrayLike"),
            "numpy.random._generator.Generator": ("reference/random/generator.html#{name}", "numpy.random.Generator"),
        },
    },
    "torch": {
        "class": {
            **_same("tensors.html#{name}", "torch.", "Tensor"),
            **_same("tensor_attributes.html#{name}", "torch.", "device dtype"),
            **_same("size.html#{name}", "torch.", "Size"),
            **_same("generated/{name}.html#{name}", "torch.nn.parameter.", "Parameter"),
            **_same("distributions.html#{name}", "torch.distributions.distribution.", "Distribution"),
            "torch._C.Generator": ("generated/{name}.html#{name}", "torch.Generator"),
            "torch.nn.modules.module.Module": ("generated/{name}.html#{name}", "torch.nn.Module"),
            "torch.nn.modules.linear.Linear": ("generated/{name}.html#{name}", "torch.nn.Linear"),
            "torch.optim.optimizer.Optimizer": ("optim.html#{name}", "torch.optim.Optimizer"),
        },
    },
    "gymnasium": {
        "class": {
            "gymnasium.core.Env": ("api/env/#{name}", "gymnasium.Env"),
            "gymnasium.core.Wrapper": ("api/wrappers/#{name}", "gymnasium.Wrapper"),
            "gymnasium.core.ObservationWrapper": (
                "api/wrappers/observation_wrappers/#{name}",
                "gymnasium.ObservationWrapper",
            ),
            "gymnasium.spaces.space.Space": ("api/spaces/#{name}", "gymnasium.spaces.Space"),
        },
    },
}


def inventory(project: str) -> bytes:
    """Return an inventory in Sphinx's format, version 2, with each name as Python and as its page know it."""
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
