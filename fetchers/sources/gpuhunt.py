"""gpuhunt's published catalogs: one zip a provider, made hourly by the people of dstack."""

from __future__ import annotations

import csv
import io
import os
import re
import zipfile
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

from fetchers.errors import ContentError, FetchError, TooLargeError, UnreachableError
from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import number, text, whole
from fetchers.pulls import RawPart, RawPull, new_part
from fetchers.source import Source

# The names of gpuhunt and of the catalog of providers.
PROVIDERS = {
    "aws": "aws",
    "azure": "azure",
    "cloudrift": "cloudrift",
    "gcp": "gcp",
    "lambdalabs": "lambda",
    "nebius": "nebius",
    "oci": "oci",
    "runpod": "runpod",
    "verda": "verda",
}
FOLDER_VARIABLE = "GPUHUNT_CATALOG_DIR"
URL_VARIABLE = "GPUHUNT_CATALOG_URL"
MAX_CSV_BYTES = 100_000_000
NEEDED = ("instance_name", "location", "price", "gpu_count", "gpu_name", "gpu_memory", "spot")

_VERSION = re.compile(rb"[0-9A-Za-z._-]{1,40}")
_ZONE = re.compile(r"-[a-z]$")


class GpuHunt(Source):
    """Prices of nine clouds, several of which ask for a key themselves. Off unless asked for: it repeats other sources.

    The variables of the gpuhunt package are honoured: GPUHUNT_CATALOG_DIR reads its CSV files from a folder,
    GPUHUNT_CATALOG_URL asks another server. The package is not needed.
    """

    name = "gpuhunt"
    title = "gpuhunt catalogs (dstack)"
    url = "https://dstack-gpu-pricing.s3.eu-west-1.amazonaws.com/v3"
    kind = "collection"
    terms = "published for the users of gpuhunt (MPL-2.0)"
    on_by_default = False

    def __init__(self, base_url: str | None = None):
        super().__init__(base_url or os.environ.get(URL_VARIABLE, "").strip() or None)

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for the newest catalog of each provider; one that did not change is not sent again."""
        folder = os.environ.get(FOLDER_VARIABLE, "").strip()
        if folder:
            return self.pull(*self._from_folder(Path(folder)))
        return self.pull(*(self._ask(session, provider, previous) for provider in PROVIDERS))

    def _ask(self, session: HttpSession, provider: str, previous: RawPull | None) -> RawPart:
        version = self.get(session, f"/{provider}/version", label="version", expect="csv").body.strip()
        if not _VERSION.fullmatch(version):
            raise ContentError(
                self.name, f"the version of {provider} is no version", "Its layout has changed; report it."
            )
        path = f"/{provider}/{version.decode()}/catalog.zip"

        def unpacked(chunks: Iterator[bytes]) -> bytes:
            return self._unpack(b"".join(chunks), provider)

        return self.get(session, path, label=provider, expect="zip", previous=previous, consume=unpacked)

    def _unpack(self, packed: bytes, provider: str) -> bytes:
        try:
            with zipfile.ZipFile(io.BytesIO(packed)) as archive, archive.open(f"{provider}.csv") as file:
                body = file.read(MAX_CSV_BYTES + 1)
        except (zipfile.BadZipFile, KeyError, RuntimeError, EOFError, NotImplementedError, OSError) as error:
            what = f"the catalog of {provider} is not a zip with {provider}.csv"
            raise ContentError(self.name, what, "Its layout has changed; report it.") from error
        if len(body) > MAX_CSV_BYTES:
            raise TooLargeError(self.name, f"the catalog of {provider} unpacks to over 100 MB", "Look at it by hand.")
        return body

    def _from_folder(self, folder: Path) -> list[RawPart]:
        now = datetime.now(UTC)
        files = [path for provider in PROVIDERS if (path := folder / f"{provider}.csv").is_file()]
        if not files:
            raise self._folder_error(folder, "it holds no PROVIDER.csv")
        try:
            return [new_part(label=path.stem, url=str(path), fetched_at=now, body=path.read_bytes()) for path in files]
        except OSError as error:
            raise self._folder_error(folder, error.strerror or "") from error

    def _folder_error(self, folder: Path, why: str) -> FetchError:
        return UnreachableError(self.name, f"{folder} cannot be read ({why})", f"{FOLDER_VARIABLE} must name a folder.")

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return one row a machine, place and term; machines without GPUs are left out."""
        rows: list[RawRow] = []
        for part in pull.parts:
            reader = csv.DictReader(io.StringIO(part.body.decode("utf-8", "replace")))
            lost = [column for column in NEEDED if column not in (reader.fieldnames or ())]
            if lost:
                what = f"the catalog of {part.label} lacks {', '.join(lost)}"
                raise ContentError(self.name, what, "gpuhunt has changed its columns; report it.")
            try:
                rows += [_row(entry, part.label, day) for entry in reader if (number(entry["gpu_count"]) or 0) > 0]
            except csv.Error as error:
                raise ContentError(self.name, f"the catalog of {part.label} is not CSV", "Pull it again.") from error
        return rows


def _row(entry: dict[str, str], provider: str, day: date) -> RawRow:
    place = text(entry["location"])
    if provider == "gcp":
        place = _ZONE.sub("", place)  # the price is the region's
    dated = "dws-calendar-mode" in text(entry.get("flags"))
    return RawRow(
        source="gpuhunt",
        provider=PROVIDERS.get(provider, provider),
        region=place or "global",
        instance_type=text(entry["instance_name"]),
        spelling=text(entry["gpu_name"]),
        gpus=whole(entry["gpu_count"]) or 0,
        memory_gb=number(entry["gpu_memory"]) or None,
        term="spot" if text(entry["spot"]).lower() == "true" else "on-demand",
        price_usd=number(entry["price"]),
        per="node",
        seen_on=day,
        refused="capacity reserved for set dates" if dated else "",
    )
