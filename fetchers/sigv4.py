"""Signature version 4 of AWS requests, with the standard library: one request a region needs no SDK.

https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html (read 2026-11-30).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """Keys of an AWS account; the token is there for temporary ones. The text of this object shows no secret."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


def canonical_query(params: Mapping[str, str]) -> str:
    """Return the query as it is signed and must be sent: encoded, then sorted."""
    pairs = [(quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in params.items()]
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


def sign_get(
    keys: AwsKeys, url: str, params: Mapping[str, str], region: str, service: str, now: datetime
) -> dict[str, str]:
    """Return the headers that sign a GET of `url?canonical_query(params)`.

    Args:
        keys: the account's keys.
        url: address without query.
        params: query parameters.
        region: AWS region.
        service: AWS service, such as "ec2".
        now: when the request is sent; AWS refuses it 5 minutes later.
    """
    parts = urlsplit(url)
    stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": parts.netloc, "x-amz-date": stamp}
    if keys.session_token:
        headers["x-amz-security-token"] = keys.session_token
    signed = ";".join(sorted(headers))
    canonical = "\n".join(
        (
            "GET",
            quote(parts.path or "/", safe="/-_.~"),
            canonical_query(params),
            "".join(f"{name}:{headers[name]}\n" for name in sorted(headers)),
            signed,
            hashlib.sha256(b"").hexdigest(),
        )
    )
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    to_sign = "\n".join((_ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = f"AWS4{keys.secret_access_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    credential = f"Credential={keys.access_key_id}/{scope}"
    authorization = f"{_ALGORITHM} {credential}, SignedHeaders={signed}, Signature={signature}"
    sent = {name: value for name, value in headers.items() if name != "host"}
    return {**sent, "Authorization": authorization}
