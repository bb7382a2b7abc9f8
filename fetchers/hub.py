"""Models that are not bundled: config.json and the size of the safetensors files, read from the Hugging Face Hub.

Everything goes through `huggingface_hub` and its cache. Only the Hub's own host is asked, also after a redirect; the
token comes from HF_TOKEN alone; a model's name is checked before anything is asked.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from catalogs.errors import DataFileError
from catalogs.model_spec import ModelSpec
from catalogs.pulled_models import is_hub_id, keep_model, pulled_path
from fetchers.errors import (
    ContentError,
    FetchError,
    NotInstalledError,
    RefusedError,
    TooLargeError,
    UnreachableError,
    UnsafeError,
)
from fetchers.redact import Redactor
from fetchers.targets import is_loopback

HUB = "https://huggingface.co"
TOKEN_VARIABLE = "HF_TOKEN"
ENDPOINT_VARIABLE = "HF_ENDPOINT"
OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
MAX_FILE_BYTES = 32_000_000
MAX_SECONDS = 120.0
MAX_TRIES = 2
_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_BY_HAND = "Or pass the path of its config.json, or of the folder that holds it."


@dataclass(frozen=True, slots=True)
class PulledModel:
    """A model that was read from the Hub.

    Attributes:
        spec: what it holds.
        path: where it is kept.
        revision: the commit it was read at; "" where the Hub did not say.
        safetensors_bytes: size of its weights; None where it publishes no safetensors files.
    """

    spec: ModelSpec
    path: Path
    revision: str
    safetensors_bytes: int | None


class HubModelError(FetchError):
    """A model cannot be read from the Hub: it is missing, gated, or its name is none."""


def pull_model(name: str) -> PulledModel:
    """Read a model from the Hub and keep it in the user's data folder, where `load_model` finds it.

    Raises:
        FetchError: it cannot be read; says why and what to do.
    """
    if not is_hub_id(name):
        raise HubModelError(name[:100], "is no name of a model on the Hub (org/name)", _BY_HAND)
    set_offline = [variable for variable in OFFLINE_VARIABLES if os.environ.get(variable, "").strip() not in ("", "0")]
    if set_offline:
        raise UnreachableError(name, f"the Hub is not asked: {set_offline[0]} is set", f"Unset it. {_BY_HAND}")
    endpoint = _endpoint()
    try:
        import huggingface_hub.errors  # noqa: PLC0415  an optional package, and slow to import
        import huggingface_hub.utils  # noqa: PLC0415
    except ImportError:
        raise NotInstalledError(
            name, "reading it from the Hub needs huggingface_hub", f'pip install "shardwise[hub]". {_BY_HAND}'
        ) from None
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    redactor = Redactor([token] if token else [])
    with _explained(name, endpoint, redactor), _pinned(huggingface_hub, name, endpoint):
        hub = _Hub(huggingface_hub, name, endpoint, token or False)
        config = hub.file("config.json")
        if config is None:
            raise HubModelError(name, "has no config.json on the Hub", f"Is it a GGUF or adapter copy? {_BY_HAND}")
        quantization = hub.file("hf_quant_config.json")
        size = hub.safetensors_bytes()
    revision = hub.revision
    try:
        kept = {
            "config": config,
            "hf_quant_config": quantization,
            "revision": revision,
            "safetensors_bytes": size,
            "source": f"config.json of {name} on the Hugging Face Hub, revision {revision[:12] or 'not stated'}, read "
            f"on {datetime.now(UTC):%Y-%m-%d}",
        }
        spec = keep_model(name, kept)
    except DataFileError as error:
        raise ContentError(name, f"its config cannot be used: {'; '.join(error.problems)}", _BY_HAND) from None
    return PulledModel(spec, pulled_path(name), revision, size)


class _Hub:
    """Files of one model."""

    def __init__(self, library: Any, name: str, endpoint: str, token: str | bool):
        self._library = library
        self._name = name
        self._endpoint = endpoint
        self._token = token
        self.revision = ""

    def file(self, filename: str) -> Any:
        """Return a JSON file of the model at one revision, decoded; None where it has none."""
        try:
            path = Path(
                self._library.hf_hub_download(
                    self._name,
                    filename,
                    revision=self.revision or None,
                    endpoint=self._endpoint,
                    token=self._token,
                )
            )
        except self._library.errors.LocalEntryNotFoundError:
            raise
        except self._library.errors.EntryNotFoundError:
            return None
        # The cache lies by commit: .../snapshots/<commit>/config.json.
        self.revision = self.revision or path.parent.name
        if path.stat().st_size > MAX_FILE_BYTES:
            raise TooLargeError(self._name, f"{filename} is larger than {MAX_FILE_BYTES / 1e6:g} MB", _BY_HAND)
        try:
            return json.loads(path.read_text(encoding="utf-8-sig"))
        except (ValueError, RecursionError):
            raise ContentError(self._name, f"{filename} is not JSON", _BY_HAND) from None

    def safetensors_bytes(self) -> int | None:
        """Return the size of the weights: the index's total, or the size of the one file."""
        index = self.file(_INDEX)
        if isinstance(index, dict):
            total = (index.get("metadata") or {}).get("total_size")
            return int(total) if isinstance(total, (int, float)) and total > 0 else None
        url = self._library.hf_hub_url(self._name, _SINGLE, revision=self.revision or None, endpoint=self._endpoint)
        try:
            size = self._library.get_hf_file_metadata(url, token=self._token, endpoint=self._endpoint).size
        except self._library.errors.EntryNotFoundError:
            return None
        return None if size is None else int(size)


def _endpoint() -> str:
    """Return the Hub's address; HF_ENDPOINT counts only where it names this machine, as tests do."""
    wanted = os.environ.get(ENDPOINT_VARIABLE, "").strip().rstrip("/")
    return wanted if wanted and is_loopback(urlsplit(wanted).hostname or "") else HUB


@contextmanager
def _pinned(library: Any, name: str, endpoint: str) -> Iterator[None]:
    """Let the library's connections reach the Hub's own host only, and bound what they bring."""
    allowed = _origin(endpoint)
    host = urlsplit(endpoint).hostname
    until = time.monotonic() + MAX_SECONDS
    tries: Counter[tuple[str, str]] = Counter()
    failed: dict[str, int] = {}

    def before(request: Any) -> None:
        tries[request.method, str(request.url)] += 1
        if tries[request.method, str(request.url)] > MAX_TRIES:  # the library itself would go on for half a minute
            status = failed.get(str(request.url))
            if status is not None:
                raise RefusedError(name, f"{host} answers with HTTP {status}", f"Try again later. {_BY_HAND}")
            raise UnreachableError(name, f"{host} cannot be reached", f"Check the connection. {_BY_HAND}")
        if _origin(str(request.url)) != allowed:
            raise UnsafeError(name, f"the Hub leads to another host ({urlsplit(str(request.url)).hostname})", _BY_HAND)
        request.headers["Accept-Encoding"] = "identity"

    def after(response: Any) -> None:
        if response.status_code >= 400:
            failed[str(response.request.url)] = response.status_code
        announced = response.headers.get("Content-Length", "")
        if response.request.method == "GET" and announced.isdigit() and int(announced) > MAX_FILE_BYTES:
            raise TooLargeError(name, f"a file of {int(announced) / 1e6:,.0f} MB", _BY_HAND)
        response.stream = _bounded(response.stream, name, until)

    # The library opens a new client after a failed connection: only what its factory makes is pinned for sure.
    plain = library.get_session()
    hooks = {moment: list(plain.event_hooks.get(moment, [])) for moment in ("request", "response")}

    def client_with(request: list[Any], response: list[Any]) -> Any:
        return type(plain)(event_hooks={"request": request, "response": response}, follow_redirects=True, timeout=None)

    library.utils.disable_progress_bars()
    library.utils.logging.set_verbosity_error()
    library.set_client_factory(lambda: client_with([*hooks["request"], before], [*hooks["response"], after]))
    try:
        yield
    finally:
        library.set_client_factory(lambda: client_with(hooks["request"], hooks["response"]))


def _bounded(stream: Any, name: str, until: float) -> Any:
    """Return a stream that ends with an error where it is too long, or takes too long."""
    base = next(cls for cls in type(stream).__mro__ if cls.__name__ == "SyncByteStream")

    def chunks(_: Any) -> Iterator[bytes]:
        size = 0
        for chunk in stream:
            size += len(chunk)
            if size > MAX_FILE_BYTES:
                raise TooLargeError(name, f"a file of more than {MAX_FILE_BYTES / 1e6:g} MB", _BY_HAND)
            if time.monotonic() > until:
                raise UnreachableError(name, f"the Hub took longer than {MAX_SECONDS:g} s", "Try again later.")
            yield chunk

    members: dict[str, Callable[..., Any]] = {"__iter__": chunks, "close": lambda _: stream.close()}
    return type("Bounded", (base,), members)()


@contextmanager
def _explained(name: str, endpoint: str, redactor: Redactor) -> Iterator[None]:
    """Turn the library's errors into ours."""
    from huggingface_hub import errors  # noqa: PLC0415

    host = urlsplit(endpoint).hostname
    token = f"set {TOKEN_VARIABLE} to a token of an account that has access"
    try:
        yield
    except FetchError:
        raise
    except errors.GatedRepoError:
        raise HubModelError(
            name, "is gated", f"Accept its terms at {endpoint}/{name} and {token}. {_BY_HAND}"
        ) from None
    except errors.RepositoryNotFoundError:
        raise HubModelError(
            name, f"{host} has no such model, or it is private", f"Check its name, or {token}. {_BY_HAND}"
        ) from None
    except errors.LocalEntryNotFoundError:
        raise UnreachableError(name, f"{host} cannot be reached", f"Check the connection. {_BY_HAND}") from None
    except errors.HfHubHTTPError as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        again = "Try again later." if status in (429, 500, 502, 503, 504) else f"Or {token}."
        raise RefusedError(name, f"{host} answers with HTTP {status}", f"{again} {_BY_HAND}") from None
    except Exception as error:
        text = redactor.text(f"{type(error).__name__}: {error}").splitlines()[0][:300]
        raise UnreachableError(name, f"{host} cannot be read ({text})", f"Try again later. {_BY_HAND}") from None


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return (parts.scheme, (parts.hostname or "").lower(), parts.port or {"http": 80, "https": 443}.get(parts.scheme))
