"""Nothing here reads or fills the cache of whoever runs the tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="module")
def _own_cache(own_cache: Path) -> None:
    """Every file has a cache of its own."""
