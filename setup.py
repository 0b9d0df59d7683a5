"""Every folder of a room is a package of the namespace `supple`; all else stands in pyproject.toml."""

from setuptools import find_packages, setup

ROOMS = (
    "registry", "networks", "interventions", "metrics", "experiments", "envs", "agents", "tracks", "integrations",
    "scripts",
)  # fmt: skip

setup(
    packages=[f"supple.{name}" for name in find_packages(include=[*ROOMS, *(f"{room}.*" for room in ROOMS)])],
    package_dir={f"supple.{room}": room for room in ROOMS},
)
