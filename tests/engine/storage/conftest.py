"""What is written is flushed to the disk here, as it is in use."""

import os

import pytest

from tests.conftest import really_sync


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", really_sync)
