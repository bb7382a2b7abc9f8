"""Every source with its recorded answers: which paths a test server serves, and which credentials are asked for."""

from __future__ import annotations

import io
import zipfile
from datetime import UTC, date, datetime
from pathlib import Path

from fetchers.credentials import Credentials
from fetchers.http import HttpSession, Limits
from fetchers.pulls import RawPull, new_part
from fetchers.source import Source, source_classes
from fetchers.sources.gpuhunt import PROVIDERS
from fetchers.sources.skypilot import CLOUDS
from tests.fetchers.server import Answer, Server

PAYLOADS = Path(__file__).parent.parent / "data" / "payloads"
DAY = date(2026, 8, 22)

# source -> (label of the part, path asked, file)
RECORDED: dict[str, list[tuple[str, str, str]]] = {
    "aws": [("all", "/offers/v1.0/aws/AmazonEC2/current/index.csv", "aws.csv")],
    "aws-spot": [("us-east-1 1", "/", "aws_spot.xml")],
    "azure": [
        ("page 1", "/api/retail/prices", "azure_1.json"),
        ("page 2", "/api/retail/prices?$filter=x&$skip=1000", "azure_2.json"),
    ],
    "cloudrift": [("all", "/api/v1/instance-types/list", "cloudrift.json")],
    "crusoe": [
        ("capacities", "/v1alpha5/capacities", "crusoe_capacities.json"),
        ("types", "/v1alpha5/projects/project-1/compute/vms/types", "crusoe_types.json"),
    ],
    "digitalocean": [("page 1", "/v2/sizes", "digitalocean.json")],
    "gcp": [
        ("page 1", "/v1/services/6F81-5844-456A/skus", "gcp_1.json"),
        (
            "page 2",
            "/v1/services/6F81-5844-456A/skus?currencyCode=USD&pageSize=5000&pageToken=second",
            "gcp_2.json",
        ),
    ],
    "gpuhunt": [("gcp", "/gcp/20260822-1/catalog.zip", "gpuhunt.csv")],
    "hot-aisle": [
        ("virtual_machines", "/api/teams/team-1/virtual_machines/available/", "hot_aisle_vm.json"),
        ("bare_metal", "/api/teams/team-1/bare_metal/available/", "hot_aisle_metal.json"),
    ],
    "lambda": [("all", "/api/v1/instance-types", "lambda.json")],
    "linode": [("page 1", "/v4/linode/types", "linode.json")],
    "lium": [("all", "/api/public/v1/nodes", "lium.json")],
    "oci": [("all", "/pls/apex/cetools/api/v1/products/", "oci.json")],
    "prime-intellect": [("page 1", "/api/v1/availability/gpus", "prime_intellect.json")],
    "runpod": [("all", "/graphql", "runpod.json")],
    "shadeform": [("all", "/v1/instances/types", "shadeform.json")],
    "skypilot": [("lambda", "/skypilot-org/skypilot-catalog/master/catalogs/v8/lambda/vms.csv", "skypilot.csv")],
    "spheron": [
        ("page 1", "/api/gpu-offers?page=1&limit=100", "spheron_1.json"),
        ("page 2", "/api/gpu-offers?page=2&limit=100", "spheron_2.json"),
    ],
    "tensordock": [("all", "/api/v2/locations", "tensordock.json")],
    "vast": [("all", "/api/v0/bundles/", "vast.json")],
    "verda": [
        ("types", "/v1/instance-types", "verda_types.json"),
        ("available", "/v1/instance-availability", "verda_available.json"),
        ("available as spot", "/v1/instance-availability?is_spot=true", "verda_spot.json"),
    ],
    "vultr": [("plans 1", "/v2/plans", "vultr_plans.json"), ("plans_metal 1", "/v2/plans-metal", "vultr_metal.json")],
}

SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE-secret",
    "AWS_SECRET_ACCESS_KEY": "aws-secret-value/+1",
    "CRUSOE_ACCESS_KEY": "crusoe-access-value",
    "CRUSOE_SECRET_KEY": "Y3J1c29lLXNlY3JldA",
    "DIGITALOCEAN_TOKEN": "digitalocean-token-value",
    "GCP_API_KEY": "gcp-key-value",
    "HOTAISLE_API_KEY": "hotaisle-key-value",
    "LAMBDA_API_KEY": "lambda-key-value",
    "PRIME_API_KEY": "prime-key-value",
    "SHADEFORM_API_KEY": "shadeform-key-value",
    "TENSORDOCK_API_TOKEN": "tensordock-token-value",
    "VERDA_CLIENT_ID": "verda-client-id",
    "VERDA_CLIENT_SECRET": "verda-client-secret",
}
SETTINGS = {"AWS_REGIONS": "us-east-1", "CRUSOE_PROJECT_ID": "project-1", "HOTAISLE_TEAM": "team-1"}
VERDA_TOKEN = "verda-session-token"

QUICK = Limits(connect_s=2.0, read_s=2.0, total_s=10.0, tries=3, first_pause_s=0.001, longest_pause_s=0.002)


def session(limits: Limits = QUICK, **options: object) -> HttpSession:
    """Return a session with every credential, that never sleeps."""
    credentials = Credentials({**SECRETS, **SETTINGS})
    return HttpSession(credentials, limits, sleep=options.get("sleep", lambda _: None))  # type: ignore[arg-type]


def payload(name: str) -> bytes:
    return (PAYLOADS / name).read_bytes()


def zipped(name: str, body: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, body)
    return buffer.getvalue()


def serve_recorded(server: Server, name: str) -> Source:
    """Let the server answer as the provider does; return the source that asks it."""
    for _, path, file in RECORDED[name]:
        server.on(path, Answer(payload(file).replace(b"{URL}", server.url.encode()), content_type=_type(file)))
    if name == "verda":
        server.on("/v1/oauth2/token", Answer(f'{{"access_token": "{VERDA_TOKEN}"}}'.encode()))
    if name == "skypilot":
        for cloud in CLOUDS:
            path = f"/skypilot-org/skypilot-catalog/master/catalogs/v8/{cloud}/vms.csv"
            server.on(path, Answer(payload("skypilot.csv"), content_type="text/plain; charset=utf-8"))
    if name == "gpuhunt":
        for provider in PROVIDERS:
            body = payload("gpuhunt.csv")
            server.on(f"/{provider}/version", Answer(b"20260822-1\n", content_type="binary/octet-stream"))
            packed = zipped(f"{provider}.csv", body if provider == "gcp" else body.splitlines(keepends=True)[0])
            server.on(f"/{provider}/20260822-1/catalog.zip", Answer(packed, content_type="application/zip"))
    return source_classes()[name](server.url)


def recorded_pull(name: str) -> RawPull:
    """Return the recorded answers as a pull, without a network."""
    now = datetime(2026, 8, 22, 6, 0, tzinfo=UTC)
    parts = [
        new_part(label=label, url=path, fetched_at=now, body=payload(file)) for label, path, file in RECORDED[name]
    ]
    return RawPull(name, tuple(parts))


def _type(file: str) -> str:
    return {"csv": "text/csv", "xml": "text/xml;charset=UTF-8"}.get(file.rpartition(".")[2], "application/json")
