"""The folder `package` is `supple`, and every folder of a room a package of it; all else stands in pyproject.toml.

`package` makes `supple` a regular package. Without it, any folder called supple in the working directory, such as a
checkout, would join it and be imported instead of what is installed. It is not called `supple` itself, because that
folder would win over the installed one wherever Python is started at the root.
"""

import tomllib
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.editable_wheel import editable_wheel

PROJECT = tomllib.loads(Path(__file__).with_name("pyproject.toml").read_text(encoding="utf-8"))
ROOMS: list[str] = PROJECT["tool"]["supple"]["rooms"]


class StrictlyEditable(editable_wheel):
    """`pip install -e .` links the files into a real folder, unless another `editable_mode` is asked for.

    The mode that setuptools takes by itself finds packages by a hook, which comes after the folders of `sys.path`: a
    folder called supple in the working directory would win. Type checkers cannot follow the hook either.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        self.mode = self.mode or "strict"


setup(
    cmdclass={"editable_wheel": StrictlyEditable},
    packages=[
        "supple",
        *(f"supple.{name}" for name in find_packages(include=[*ROOMS, *(f"{room}.*" for room in ROOMS)])),
    ],
    package_dir={"supple": "package"} | {f"supple.{room}": room for room in ROOMS},
)
