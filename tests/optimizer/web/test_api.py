"""The API over a real socket: the same answers as the command line, problems in words, limits that hold."""

from __future__ import annotations

import json
import re
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from optimizer.questions.kinds import KINDS
from tests.optimizer.command import run
from tests.optimizer.web.service import LONG, MODEL, SMALL, Service, changed, until

IMPOSSIBLE = changed(SMALL, targets={"ttft_ms": 0.001})


def without_seconds(plan: dict[str, Any]) -> dict[str, Any]:
    """A plan without the time that the solver took."""
    return {**plan, "solver": {**plan["solver"], "seconds": 0}}


def test_a_plan_is_what_the_command_line_prints(service: Service) -> None:
    flags = ("--input-tokens", "500", "--output-tokens", "100", "--request-rate", "2", "--gpu", "A100-SXM-80GB")
    said = run("solve", MODEL, *flags, "--provider", "spheron", "--as-of", "2026-08-14", "--json")

    found = service.post("solve", {"scenario": SMALL})

    assert found.status_code == 200
    assert without_seconds(found.json()) == without_seconds(said.json)


def test_that_nothing_is_feasible_is_an_answer_with_its_reasons(service: Service) -> None:
    found = service.post("solve", {"scenario": IMPOSSIBLE})

    assert found.status_code == 200
    assert found.json()["status"] == "infeasible"
    assert [one["rule"] for one in found.json()["conflict"]] == ["ttft"]


def test_a_fleet_is_solved_by_the_same_route(service: Service) -> None:
    classes = [
        {"name": "chat", "input_tokens": 500, "output_tokens": 100, "request_rate": 2},
        {"name": "documents", "input_tokens": 4000, "output_tokens": 50, "request_rate": 1},
    ]
    limits = {"gpus": ["A100-SXM-80GB"], "providers": ["spheron"]}
    fleet = {"model": MODEL, "classes": classes, "limits": limits, "prices": {"as_of": "2026-08-14"}}

    found = service.post("solve", {"scenario": fleet}).json()

    assert found["status"] == "optimal"
    assert [one["name"] for one in found["classes"]] == ["chat", "documents"]


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.reads])
def test_the_examples_of_the_description_are_answered(name: str, service: Service) -> None:
    schema = service.get("/openapi.json").json()
    body = schema["paths"][f"/api/v1/{name}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    examples = schema["components"]["schemas"][body["$ref"].rpartition("/")[2]]["examples"]

    for example in examples:
        assert service.post(name, example).status_code == 200


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("catalog/gpus?match=H100-SXM", {"name": "H100-SXM-80GB"}),
        ("catalog/models?match=qwen2.5-0.5b-instruct", {"name": MODEL}),
        ("catalog/nodes?provider=aws&gpu=H100-SXM-80GB", {"provider": "aws", "gpu": "H100-SXM-80GB"}),
        ("catalog/offers?as_of=2026-08-14&provider=spheron&limit=1", {"provider": "spheron"}),
        ("prices?as_of=2026-08-14&gpu=h100*&limit=1", {"term": "spot"}),
        ("prices/history?gpu=l4*&provider=gcp&limit=1", {"provider": "gcp"}),
        ("prices/diff?before=2026-07-05&after=2026-08-14&limit=1", {}),
    ],
)
def test_catalogs_and_prices_are_listed_in_parts(path: str, first: dict[str, Any], service: Service) -> None:
    found = service.get(f"/api/v1/{path}").json()

    assert found["total"] >= len(found["rows"]) >= 1
    assert first.items() <= found["rows"][0].items()


@pytest.mark.parametrize(
    ("path", "status", "field", "words"),
    [
        ("catalog/nodes?gpu=H1000", 422, "", "Did you mean H100"),
        ("catalog/gpus?limit=0", 422, "limit", "from 1 to 10,000"),
        ("catalog/gpus?colour=red", 422, "colour", "is not a field"),
        ("prices?sort=taste", 422, "sort", "usd_per_gpu_hour"),
        ("prices?as_of=yesterday", 422, "as_of", "a day such as"),
        ("prices/diff?before=2026-08-14&after=2026-07-05", 422, "before", "the earlier day first"),
        ("prices/diff?before=2026-08-14", 422, "after", "must be given"),
    ],
)
def test_what_is_wrong_with_a_query_is_said_by_field(
    path: str, status: int, field: str, words: str, service: Service
) -> None:
    found = service.get(f"/api/v1/{path}")

    assert found.status_code == status
    assert found.headers["content-type"] == "application/problem+json"
    assert any(one["field"] == field and words in one["detail"] for one in found.json()["errors"])


def test_every_wrong_field_of_a_question_is_named_with_what_is_accepted(service: Service) -> None:
    scenario = {"model": MODEL, "workload": {"input_tokens": -1, "output_tokens": 5}, "targets": {"ttft": 3}, "x": 1}

    found = service.post("solve", {"scenario": scenario, "time_limit_s": "soon"})

    problem = found.json()
    assert (found.status_code, problem["status"], problem["title"]) == (422, 422, "Unprocessable Entity")
    said = {one["field"]: one["detail"] for one in problem["errors"]}
    assert "from 1 to 10,000,000" in said["scenario.workload.input_tokens"]
    assert "did you mean ttft_ms?" in said["scenario.targets.ttft"]
    assert "is not a field" in said["scenario.x"]
    assert "seconds from 0.1 to 600" in said["time_limit_s"]


def test_errors_that_only_the_catalog_knows_speak_of_fields_and_not_of_flags(service: Service) -> None:
    limits = changed(SMALL, limits={"providers": ["spheronn"]})
    shock = service.post("whatif/shock", {"scenario": SMALL, "price": ["A100*=lots"]})

    found = service.post("solve", {"scenario": limits})

    assert found.status_code == shock.status_code == 422
    assert "spheron" in found.json()["detail"]
    assert "--" not in found.json()["detail"] + shock.json()["detail"]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"scenario": ' + b"9" * 10_000 + b"}", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"", "application/json", 422),
        (b"null", "application/json", 422),
        (b"[]", "application/json", 422),
        (b'{"scenario": NaN}', "application/json", 422),
        (b"{}", "text/plain", 415),
        (b'{"model": "Qwen/Qwen2.5-0.5B-Instruct", "gpu": "L4-24GB"}', "text/plain", 415),
        (b"a=b", "application/x-www-form-urlencoded", 415),
    ],
)
def test_a_body_that_is_no_question_is_a_problem(body: bytes, kind: str, status: int, service: Service) -> None:
    found = service.client.post("/api/v1/solve", content=body, headers={"content-type": kind})

    assert found.status_code == status
    assert found.headers["content-type"] == "application/problem+json"
    assert ("the body is empty" in found.text) == (body == b"")


def test_a_body_that_is_too_large_is_refused_unread(service: Service) -> None:
    def parts() -> Any:
        for _ in range(40):
            yield b" " * 100_000

    streamed = service.client.post("/api/v1/solve", content=parts(), headers={"content-type": "application/json"})

    assert streamed.status_code == 413
    assert "2,000,000" in streamed.json()["detail"]
    where = urlsplit(service.address)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=5) as line:
        line.sendall(
            f"POST /api/v1/solve HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
            "Content-Length: 3000000\r\n\r\n".encode()
        )
        assert line.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "TRACE", "QUERY"])
def test_other_methods_and_addresses_are_problems_too(method: str, service: Service) -> None:
    wrong = service.client.request(method, "/api/v1/solve")
    of_reading = service.client.post("/api/v1/catalog/gpus")
    of_jobs = service.client.request(method, "/api/v1/jobs/solve")
    nowhere = service.client.request(method, "/api/v1/nothing")

    assert (wrong.status_code, of_jobs.status_code, nowhere.status_code) == (405, 405, 404)
    assert (of_reading.status_code, of_reading.headers["allow"]) == (405, "GET")
    assert wrong.headers["allow"] == of_jobs.headers["allow"] == "POST"
    assert wrong.headers["content-type"] == nowhere.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::2]:80"])
def test_a_name_that_is_not_the_services_is_not_answered(host: str, service: Service) -> None:
    assert service.get("/api/v1/catalog/gpus", host=host).status_code == 421
    assert service.get("/healthz", host=host).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:80"])
def test_this_machines_own_names_are_answered(host: str, service: Service) -> None:
    assert service.get("/healthz", host=host).status_code == 200


def test_a_page_of_another_origin_may_neither_ask_nor_read(service: Service) -> None:
    asked = service.post("fit", {"model": MODEL, "gpu": "L4-24GB"}, origin="http://evil.example")
    own = service.post("fit", {"model": MODEL, "gpu": "L4-24GB"}, origin=service.address)
    preflight = service.client.options(
        "/api/v1/fit", headers={"origin": "http://evil.example", "access-control-request-method": "POST"}
    )

    assert asked.status_code == 403
    assert own.status_code == 200
    assert preflight.status_code == 403
    assert not [name for name in own.headers if name.startswith("access-control")]


def test_answers_say_to_browsers_that_nothing_else_is_to_be_loaded(service: Service) -> None:
    headers = service.get("/healthz").headers

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "server" not in headers


def test_the_reference_loads_nothing_and_names_every_route(service: Service) -> None:
    page = service.get("/docs").text

    assert all(f"/api/v1/{name}</code>" in page for name in KINDS)
    assert not re.search(r"<script|<link|<img|src=|url\(|@import|https?://(?!127\.0\.0\.1)", page)


def test_health_says_whether_it_is_ready_and_how_old_prices_are(service: Service) -> None:
    found = service.get("/healthz").json()

    assert found["status"] == "ready"
    assert found["prices_seen_on"] >= "2026-08-14"
    assert found["price_age_days"] >= 0


def test_metrics_count_requests_by_route_and_questions_by_outcome(service: Service) -> None:
    service.post("fit", {"model": MODEL, "gpu": "L4-24GB", "context": 777})
    service.post("fit", {"model": MODEL, "gpu": "L4-24GB", "context": 777})
    service.post("fit", {"model": "no/thing", "gpu": "L4-24GB"})

    text = service.get("/metrics").text

    assert re.search(r'shardwise_requests_total\{method="POST",route="/api/v1/fit",status="200"\} [1-9]', text)
    for outcome in ("answered", "kept", "refused"):
        assert re.search(rf'shardwise_questions_total\{{kind="fit",outcome="{outcome}"\}} [1-9]', text)
    assert "shardwise_price_age_days" in text
    assert "no/thing" not in text


def test_a_job_is_taken_looked_at_and_its_result_fetched(service: Service) -> None:
    taken = service.post("jobs/solve", {"scenario": changed(SMALL, description="as a job")})

    assert taken.status_code == 202
    where = taken.headers["location"]
    assert until(lambda: service.get(where).json()["state"] == "done")
    job = service.get(where).json()
    assert job["result"]["status"] == "optimal"
    assert job["kind"] == "solve"
    assert job["running_s"] > 0
    assert [one["id"] for one in service.get("/api/v1/jobs").json()["jobs"]].count(job["id"]) == 1


def test_a_job_that_is_refused_says_why(service: Service) -> None:
    taken = service.post("jobs/solve", {"scenario": changed(SMALL, model="no/thing")})

    assert until(lambda: service.get(taken.headers["location"]).json()["state"] == "failed")
    problem = service.get(taken.headers["location"]).json()["problem"]
    assert problem["status"] == 422
    assert problem["errors"][0]["field"] == "scenario.model"


def test_a_job_that_is_cancelled_frees_its_process_and_stays_cancelled(service: Service) -> None:
    taken = service.post("jobs/solve", {"scenario": changed(LONG, description="cancelled")})
    where = taken.headers["location"]
    assert until(lambda: service.get(where).json()["state"] == "running")

    ended = service.client.delete(where)

    assert ended.json()["state"] == "cancelled"
    began = time.monotonic()
    assert service.post("fit", {"model": MODEL, "gpu": "L4-24GB", "context": 778}).status_code == 200
    assert time.monotonic() - began < 15
    assert service.get(where).json() == {**ended.json()}
    assert service.client.delete(where).json()["state"] == "cancelled"


def test_a_job_that_nobody_asked_for_is_not_there(service: Service) -> None:
    assert service.get("/api/v1/jobs/nothing").status_code == 404
    assert service.client.delete("/api/v1/jobs/nothing").status_code == 404
    assert service.get("/api/v1/jobs/%2e%2e").status_code in (404, 422)


def test_who_hangs_up_takes_the_work_along(service: Service) -> None:
    body = json.dumps({"scenario": changed(LONG, description="hangs up")}).encode()
    where = urlsplit(service.address)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=5) as line:
        line.sendall(
            f"POST /api/v1/solve HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        assert until(lambda: _running(service) == 1)

    assert until(lambda: _running(service) == 0, 5), "a solve of many seconds was ended"


def _running(service: Service) -> int:
    found = re.search(r"shardwise_questions_running (\d)", service.get("/metrics").text)
    return -1 if found is None else int(found[1])
