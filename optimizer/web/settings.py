"""How the service serves: flags, then SHARDWISE_SERVE_* variables, then defaults."""

from __future__ import annotations

import hmac
import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from optimizer.errors import QuestionError, ScenarioError
from optimizer.fields import Name, Names, Part, number, problem, whole
from optimizer.questions.workers import WorkerSettings
from optimizer.user_files import read_bounded

PREFIX = "SHARDWISE_SERVE_"
TOKEN_VARIABLE = f"{PREFIX}TOKEN"
# Settings whose flags, and variables, are not called as they are.
_NAMES = {
    "allow_hosts": "allow_host",
    "time_limit_s": "time_limit",
    "job_time_limit_s": "job_time_limit",
    "keep_jobs_s": "keep_jobs",
    "stop_s": "stop",
}
LEAST_TOKEN, MOST_TOKEN = 16, 1024
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class ServeSettings(Part):
    """How the service serves.

    Attributes:
        host, port: where it listens; port 0 takes a free one.
        workers: questions answered at once; one per core when not given.
        token: what requests have to bring as `Authorization: Bearer TOKEN`; none when not given.
        allow_anyone: serve other machines without a token.
        allow_hosts: further names by which the service is addressed (the Host header).
        max_body_bytes: the largest request.
        time_limit_s: from a request to its answer; what takes longer is asked as a job.
        max_waiting: questions that may wait for a free process.
        job_time_limit_s: from asking for a job to its result.
        max_jobs: jobs that are kept, running or done.
        keep_jobs_s: how long a result is kept.
        stop_s: how long requests may still take when the service is told to end.
    """

    host: Name = "127.0.0.1"
    port: Annotated[int, whole(0, 65_535)] = 8000
    workers: Annotated[int, whole(1, 256)] | None = None
    token: str | None = Field(default=None, repr=False)
    allow_anyone: bool = False
    allow_hosts: Names = ()
    max_body_bytes: Annotated[int, whole(1_000, 1_000_000_000)] = 2_000_000
    time_limit_s: Annotated[float, number("seconds from 0.1 to 3,600", lambda x: 0.1 <= x <= 3_600)] = 60.0
    max_waiting: Annotated[int, whole(0, 100_000)] = 200
    job_time_limit_s: Annotated[float, number("seconds from 0.1 to 86,400", lambda x: 0.1 <= x <= 86_400)] = 600.0
    max_jobs: Annotated[int, whole(1, 100_000)] = 100
    keep_jobs_s: Annotated[float, number("seconds from 1 to 604,800", lambda x: 1 <= x <= 604_800)] = 3_600.0
    stop_s: Annotated[float, number("seconds from 0 to 600", lambda x: 0 <= x <= 600)] = 10.0

    @property
    def of_workers(self) -> WorkerSettings:
        """The same as the workers need it."""
        given = {} if self.workers is None else {"processes": self.workers}
        return WorkerSettings(most_waiting=self.max_waiting, time_limit_s=self.time_limit_s, **given)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def host_names(self) -> frozenset[str] | None:
        """Names by which requests may address the service, lower case; None accepts any.

        A page in a browser can have its own name resolve to this machine and then read what is served without a token
        (DNS rebinding); its Host header gives it away. A token, which such a page does not have, makes that moot.
        """
        if not self.is_loopback and not self.allow_hosts:
            return None
        return frozenset(name.lower() for name in (*LOOPBACK_NAMES, self.host, *self.allow_hosts))

    def token_holds(self, given: str | None) -> bool:
        """Say whether a request's token is the service's, in a time that tells nothing; True where none is needed."""
        if self.token is None:
            return True
        return given is not None and hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


def read_settings(
    flags: Mapping[str, Any], token_file: Path | None = None, environment: Mapping[str, str] | None = None
) -> ServeSettings:
    """Return the settings of flags (None: not given), of variables SHARDWISE_SERVE_NAME, and of defaults.

    Raises:
        QuestionError: a value is wrong, the token's file cannot be used, or others could use the service by mistake.
    """
    environment = os.environ if environment is None else environment
    variables = {name: environment.get(_variable(name)) for name in ServeSettings.model_fields}
    given = {name: value for name, value in variables.items() if value}
    own = {name: value for name, value in flags.items() if value is not None and value not in ((), [])}
    if token_file is not None:
        own["token"] = _token(read_bounded(token_file, 4096, "a token"), f"--token-file {token_file}")
    elif "token" in given:
        given["token"] = _token(str(given["token"]).encode(), TOKEN_VARIABLE)
    try:
        settings = ServeSettings.model_validate({**given, **own})
    except ValidationError as error:
        problems = [problem(item, ServeSettings) for item in error.errors(include_url=False)]
        raise ScenarioError("serve", [_named(text, own) for text in problems]) from None
    if not settings.is_loopback and settings.token is None and not settings.allow_anyone:
        raise QuestionError(
            f"--host {settings.host}: other machines could use the service without a token; set {TOKEN_VARIABLE} or "
            "--token-file FILE, or say --allow-anyone"
        )
    return settings


def _token(data: bytes, where: str) -> str:
    try:
        text = data.decode("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    if not LEAST_TOKEN <= len(text) <= MOST_TOKEN or not text.isprintable() or " " in text:
        raise QuestionError(
            f"{where}: expected a token of {LEAST_TOKEN} to {MOST_TOKEN} letters, digits and signs without spaces, as "
            "in what `openssl rand -hex 32` prints"
        )
    return text


def _variable(name: str) -> str:
    return f"{PREFIX}{_NAMES.get(name, name).upper()}"


def _named(text: str, flags: Mapping[str, Any]) -> str:
    """Name the flag or the variable that gave a value instead of the field."""
    field, colon, said = text.partition(": ")
    name = field.partition(".")[0]
    shown = f"--{_NAMES.get(name, name).replace('_', '-')}" if name in flags else _variable(name)
    return f"{shown}{colon}{said}"
