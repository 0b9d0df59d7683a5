"""Data sets of labelled images, read into memory from the files that their authors publish."""

from .dataset import DataSet
from .loading import NAMES, load

__all__ = ["NAMES", "DataSet", "load"]
