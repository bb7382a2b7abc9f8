"""What one look at a source brought back: the raw bytes, where they came from and when, and what asks again cheaply."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any

MAX_ARCHIVE_BYTES = 500_000_000
_MANIFEST = "manifest.json"
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPart:
    """One answer of a source, as kept: decompressed, credentials taken out.

    Attributes:
        label: which answer this is among those of one look ("page 2", "us-east-1"); the same at every look.
        url: the URL asked, without secrets.
        fetched_at: when the answer came, UTC.
        body: the bytes kept. A bulk file is filtered while it streams; then these are the lines kept.
        sha256: of `body`.
        received_bytes, received_sha256: size and hash of the whole decompressed answer, before filtering.
        content_type, etag, last_modified: as the server said; the last two ask again cheaply.
        not_modified: the server said that nothing changed; `body` is the one of the look before.
    """

    label: str
    url: str
    fetched_at: datetime
    body: bytes
    sha256: str
    received_bytes: int
    received_sha256: str
    content_type: str = ""
    etag: str = ""
    last_modified: str = ""
    not_modified: bool = False

    def again(self, fetched_at: datetime) -> RawPart:
        """Return this part as seen again, unchanged."""
        return replace(self, fetched_at=fetched_at, not_modified=True)


@dataclass(frozen=True, slots=True)
class RawPull:
    """One look at one source: every answer that it took."""

    source: str
    parts: tuple[RawPart, ...]

    @property
    def fetched_at(self) -> datetime:
        """When the last answer came, UTC."""
        return max(part.fetched_at for part in self.parts)

    @property
    def sha256(self) -> str:
        """Hash over all parts, labels included: the same content has the same hash, whenever it was fetched."""
        whole = hashlib.sha256()
        for part in self.parts:
            whole.update(f"{part.label}\n{part.sha256}\n".encode())
        return whole.hexdigest()

    @property
    def not_modified(self) -> bool:
        """Whether the server said of every part that nothing changed."""
        return bool(self.parts) and all(part.not_modified for part in self.parts)

    def part(self, label: str) -> RawPart | None:
        """Return the part of this label, None when there is none."""
        return next((part for part in self.parts if part.label == label), None)

    def to_bytes(self) -> bytes:
        """Return the pull as one zip archive: a manifest and the bodies. The same pull gives the same bytes."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            manifest = {"source": self.source, "parts": [_described(part) for part in self.parts]}
            _write(archive, _MANIFEST, json.dumps(manifest, indent=1, sort_keys=True).encode())
            for number, part in enumerate(self.parts):
                _write(archive, f"{number}.body", part.body)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, archive_bytes: bytes) -> RawPull:
        """Read what `to_bytes` wrote. Raises ValueError when it is something else, or a body was altered."""
        try:
            with zipfile.ZipFile(io.BytesIO(archive_bytes)) as archive:
                if sum(entry.file_size for entry in archive.infolist()) > MAX_ARCHIVE_BYTES:
                    raise ValueError("Expected a pull of at most 500 MB.")
                manifest = json.loads(archive.read(_MANIFEST))
                parts = tuple(
                    _part(entry, archive.read(f"{number}.body")) for number, entry in enumerate(manifest["parts"])
                )
                return cls(str(manifest["source"]), parts)
        except (zipfile.BadZipFile, KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"Expected an archive of a pull: {error}.") from error


def new_part(
    *,
    label: str,
    url: str,
    fetched_at: datetime,
    body: bytes,
    received_bytes: int | None = None,
    received_sha256: str = "",
    content_type: str = "",
    etag: str = "",
    last_modified: str = "",
) -> RawPart:
    """Return a part with its hash worked out; where nothing was filtered, what was received is what is kept."""
    digest = hashlib.sha256(body).hexdigest()
    return RawPart(
        label=label,
        url=url,
        fetched_at=fetched_at,
        body=body,
        sha256=digest,
        received_bytes=len(body) if received_bytes is None else received_bytes,
        received_sha256=received_sha256 or digest,
        content_type=content_type,
        etag=etag,
        last_modified=last_modified,
    )


def _described(part: RawPart) -> dict[str, Any]:
    described = asdict(part)
    del described["body"]
    return {**described, "fetched_at": part.fetched_at.isoformat()}


def _part(entry: dict[str, Any], body: bytes) -> RawPart:
    if hashlib.sha256(body).hexdigest() != entry["sha256"]:
        raise ValueError(f"The body of {entry['label']!r} is not the one that was fetched.")
    known = {field.name for field in fields(RawPart)} - {"body", "fetched_at"}
    return RawPart(
        body=body,
        fetched_at=datetime.fromisoformat(entry["fetched_at"]),
        **{name: value for name, value in entry.items() if name in known},
    )


def _write(archive: zipfile.ZipFile, name: str, body: bytes) -> None:
    entry = zipfile.ZipInfo(name, date_time=_FIXED_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, body)
