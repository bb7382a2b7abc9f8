"""What all tests share: the flag that rewrites golden reports, no terminal, no data of the user's, no network."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# Where a CI service asks for colours, usage errors would hold escape codes; typer reads this on import.
os.environ["_TYPER_FORCE_DISABLE_TERMINAL"] = "1"


@pytest.fixture(scope="session", autouse=True)
def _no_data_of_the_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Answers must not depend on what the user keeps, nor may tests touch it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHARDWISE_DATA_DIR", str(tmp_path_factory.mktemp("data") / "none"))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.delenv("SHARDWISE_CALIBRATION", raising=False)
        patch.delenv("SHARDWISE_DATABASE_URL", raising=False)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--refresh-golden",
        action="store_true",
        help="Rewrite golden reports, and what commands print in the pages, from today's answers.",
    )
