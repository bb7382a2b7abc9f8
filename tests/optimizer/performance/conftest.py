"""Tables of replicas for the speed tests: one row that tests vary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from catalogs.models import ModelSpec, load_model

ReplicaTable = Callable[..., pd.DataFrame]


@pytest.fixture(scope="session")
def llama_70b() -> ModelSpec:
    return load_model("meta-llama/Meta-Llama-3.1-70B")


@pytest.fixture(scope="session")
def replicas() -> ReplicaTable:
    """Build a table with one replica a row from dicts of what differs from 2 x H200 in BF16."""

    def build(*changes: dict[str, Any]) -> pd.DataFrame:
        base = {
            "gpu": "H200-SXM-141GB",
            "weights": "bf16",
            "kv_cache": "bf16",
            "tp": 2,
            "pp": 1,
            "ep": 1,
            "attention_dp": 1,
            "gpus_per_node": 8,
            "fabric": "nvswitch",
            "scale_up_gpus": 8,
            "network": "infiniband",
            "network_gbit_per_s": 3200.0,
        }
        return pd.DataFrame([base | change for change in changes or ({},)])

    return build
