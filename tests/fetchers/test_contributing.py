"""The source that CONTRIBUTING shows works as it is printed there."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from fetchers.credentials import Credentials
from fetchers.http import HttpSession
from fetchers.source import source_in
from tests.fetchers.recorded import DAY, QUICK
from tests.fetchers.server import Answer, serve

GUIDE = Path(__file__).parent.parent.parent / "CONTRIBUTING.md"
MACHINES = b"""{"machines": [
    {"name": "h100x8", "gpu": "H100", "gpu_count": 8, "cents_per_hour": 1990, "free": 2},
    {"name": "a10x1", "gpu": "A10", "gpu_count": 1, "cents_per_hour": null, "free": 0}]}"""


@pytest.mark.skipif(not GUIDE.exists(), reason="only in the repository")
def test_the_example_is_a_source() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    module = types.ModuleType("fetchers.sources.example_cloud")
    sys.modules[module.__name__] = module
    try:
        exec(compile(code, str(GUIDE), "exec"), module.__dict__)
        source = source_in(module)
        with serve() as server, HttpSession(Credentials({"EXAMPLE_API_KEY": "example-key"}), QUICK) as http:
            server.on("/v1/machines", Answer(MACHINES))
            asked = source(server.url)
            rows = asked.parse(asked.fetch(http), DAY)
    finally:
        del sys.modules[module.__name__]
    assert [(row.instance_type, row.gpus, row.price_usd, row.refused) for row in rows] == [
        ("h100x8", 8, 19.9, ""),
        ("a10x1", 1, None, "not free to rent"),
    ]
    assert server.asked[0].headers["x-api-key"] == "example-key"
