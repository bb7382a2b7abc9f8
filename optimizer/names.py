"""Names in a scenario that only the loaded offers know: providers, regions, instance types."""

from __future__ import annotations

import pandas as pd

from catalogs.errors import UnknownNameError
from optimizer.errors import QuestionError
from optimizer.scenario import Scenario


def check_names(scenario: Scenario, offers: pd.DataFrame) -> None:
    """Refuse providers, regions and instance types that no offer has.

    Raises:
        QuestionError: naming each field and value, with near matches.
    """
    limits = scenario.limits
    wanted: list[tuple[str, str, tuple[str, ...]]] = [
        ("limits.providers", "provider", limits.providers),
        ("limits.exclude_providers", "provider", limits.exclude_providers),
        ("limits.regions", "region", limits.regions),
        ("limits.instance_types", "instance_type", limits.instance_types),
    ]
    for index, quota in enumerate(limits.quotas):
        wanted.append((f"limits.quotas.{index}.provider", "provider", (quota.provider,) if quota.provider else ()))
        wanted.append((f"limits.quotas.{index}.region", "region", (quota.region,) if quota.region else ()))
    problems = []
    for field, column, names in wanted:
        known = set(offers[column].unique()) if names else set()
        unknown = [UnknownNameError(column.replace("_", " "), name, known) for name in names if name not in known]
        problems += [f"{field}: {error}" for error in unknown]
    if problems:
        hint = "`shardwise catalog offers` lists what there is on the day asked for."
        raise QuestionError("\n".join((*problems, hint)))
