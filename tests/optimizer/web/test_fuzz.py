"""The API under requests drawn from its own description, right ones and broken ones: it answers as it says it does."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from optimizer.web.app import create_app
from tests.optimizer.web.service import MODEL, Service

# Cases of every boundary of every field would be some thousands: drawn ones stand for them.
DRAWN = SchemathesisConfig.from_dict({"phases": {"coverage": {"enabled": False}}})
schema = schemathesis.openapi.from_dict(create_app().openapi(), config=DRAWN)
# What these two ask for is no part of the API: numbers may come as text, as in a YAML file, and what fits the schema
# may still be refused for its meaning (a context that is shorter than the prompt).
NOT_ASKED = [negative_data_rejection, positive_data_acceptance]


@schema.parametrize()
@settings(
    max_examples=6,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_whatever_is_asked_the_answer_is_as_described_and_no_fault(case: Any, service: Service) -> None:
    body = case.body
    if isinstance(body, dict) and isinstance(body.get("scenario"), dict) and body["scenario"].get("model"):
        body["scenario"]["model"] = MODEL  # else nearly all of them end at an unknown name
    elif isinstance(body, dict) and isinstance(body.get("model"), str):
        body["model"] = MODEL

    found = case.call_and_validate(base_url=service.address, excluded_checks=NOT_ASKED)

    if found.status_code == 202:
        service.client.delete(found.headers["location"][0])  # its worker is for the cases to come
