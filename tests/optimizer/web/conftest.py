"""One service for the tests that do not need their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.optimizer.web.service import Service, serving


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    """A service with one worker, without a token."""
    with serving("--workers", "1") as found:
        yield found
