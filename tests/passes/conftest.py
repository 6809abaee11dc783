"""Ends the shared reference."""

from __future__ import annotations

from collections.abc import Iterator

import planted_faults
import pytest


@pytest.fixture(scope="session", autouse=True)
def one_reference() -> Iterator[None]:
    yield
    planted_faults.close_reference()
