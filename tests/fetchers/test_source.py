"""The contract of a source: what is refused when a file lacks a part, and who may be asked in its place."""

from __future__ import annotations

import io
import socket
import types
import zipfile
from datetime import UTC, date, datetime
from typing import Any

import pytest

from catalogs.errors import UnknownNameError
from catalogs.providers import load_providers
from fetchers.errors import SourceDefinitionError, UnsafeError
from fetchers.http import HttpSession
from fetchers.normalize import RawRow, load_aliases
from fetchers.pulls import RawPull, new_part
from fetchers.source import Source, get_source, source_classes, source_in, sources
from tests.fetchers.recorded import RECORDED, recorded_pull

WHOLE: dict[str, Any] = {
    "name": "shop",
    "title": "Shop",
    "url": "https://shop.example",
    "kind": "provider",
    "terms": "documented",
    "fetch": lambda self, session, previous=None: RawPull("shop", ()),
    "parse": lambda self, pull, day: [],
}


def define(**changes: Any) -> type[Source]:
    parts = {**WHOLE, **changes}
    return type("Shop", (Source,), {name: value for name, value in parts.items() if value is not None})


def test_a_whole_source_is_accepted() -> None:
    assert define()().origin.base_url == "https://shop.example"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": None}, "name is missing"),
        ({"title": None}, "title is missing"),
        ({"url": None}, "url is missing"),
        ({"url": "http://shop.example"}, "must start with https"),
        ({"terms": None}, "terms is missing"),
        ({"kind": "shop"}, "kind must be one of provider"),
        ({"kind": None}, "kind is missing"),
        ({"fetch": None}, "method fetch is missing"),
        ({"parse": None}, "method parse is missing"),
        ({"needs": "SHOP_KEY"}, "needs must be a tuple"),
    ],
)
def test_a_missing_part_is_refused_when_the_file_is_read(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(SourceDefinitionError, match=told):
        define(**changes)


def module(name: str, **members: Any) -> types.ModuleType:
    made = types.ModuleType(f"fetchers.sources.{name}")
    for key, value in members.items():
        if isinstance(value, type):
            value.__module__ = made.__name__
        setattr(made, key, value)
    return made


def test_a_file_holds_one_source_of_its_own_name() -> None:
    assert source_in(module("shop", Shop=define())).name == "shop"
    assert source_in(module("big_shop", Shop=define(name="big-shop"))).name == "big-shop"
    with pytest.raises(SourceDefinitionError, match="found 0"):
        source_in(module("shop"))
    with pytest.raises(SourceDefinitionError, match="found 2"):
        source_in(module("shop", A=define(), B=define()))
    with pytest.raises(SourceDefinitionError, match="expected name = 'market'"):
        source_in(module("market", Shop=define()))


def test_sources_are_found_by_themselves() -> None:
    names = [source.name for source in sources()]
    assert names == sorted(names)
    assert {"aws", "azure", "gcp", "lambda", "runpod", "vast"} <= set(names)
    assert get_source("vast").title == "Vast.ai"


def test_an_unknown_source_offers_near_matches() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean vast"):
        get_source("vasst")


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://localhost:9/x/", "https://[::1]:9"])
def test_the_environment_may_name_a_server_on_this_machine(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWISE_SOURCE_URL_AWS_SPOT", url)
    assert source_classes()["aws-spot"]().base_url == url.rstrip("/")


@pytest.mark.parametrize("url", ["https://evil.example", "http://10.0.0.1", "ftp://127.0.0.1", "127.0.0.1"])
def test_it_may_name_no_other(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWISE_SOURCE_URL_VAST", url)
    with pytest.raises(UnsafeError, match="only 127"):
        source_classes()["vast"]()


def test_aliases_of_sources_are_of_sources_that_there_are() -> None:
    kept_elsewhere = {"cherielilili", "gpurentalprices", "hemgo", "stated", "hyperstack", "jarvislabs", "seeweb"}
    others = {"primeintellect", "nebius"}
    assert {source for source, *_ in load_aliases()} - kept_elsewhere - others <= set(source_classes())


def test_every_source_speaks_of_a_provider_of_the_catalog() -> None:
    own = {"aws-spot": "aws", "hot-aisle": "hotaisle", "prime-intellect": "primeintellect"}
    collections = {name for name, cls in source_classes().items() if cls.kind == "collection"}
    assert {own.get(name, name) for name in set(source_classes()) - collections} <= set(load_providers())


class TestPulls:
    NOW = datetime(2026, 8, 22, 6, 0, tzinfo=UTC)

    def pull(self, *bodies: bytes) -> RawPull:
        parts = [
            new_part(label=str(n), url="https://x", fetched_at=self.NOW, body=body, etag='"e"')
            for n, body in enumerate(bodies)
        ]
        return RawPull("shop", tuple(parts))

    def test_what_is_written_is_read_again(self) -> None:
        pull = self.pull(b"one", b"", b"\x00two")
        assert RawPull.from_bytes(pull.to_bytes()) == pull
        assert pull.to_bytes() == pull.to_bytes()

    def test_the_hash_is_of_the_content_alone(self) -> None:
        later = RawPull("shop", tuple(part.again(datetime.now(UTC)) for part in self.pull(b"one").parts))
        assert later.sha256 == self.pull(b"one").sha256 != self.pull(b"two").sha256
        assert later.not_modified

    @pytest.mark.parametrize("junk", [b"", b"PK junk", b"{}"])
    def test_junk_is_refused(self, junk: bytes) -> None:
        with pytest.raises(ValueError, match="Expected an archive of a pull"):
            RawPull.from_bytes(junk)

    def test_an_altered_body_is_noticed(self) -> None:
        altered = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(self.pull(b"one").to_bytes())) as old, zipfile.ZipFile(altered, "w") as new:
            new.writestr("manifest.json", old.read("manifest.json"))
            new.writestr("0.body", b"two")
        with pytest.raises(ValueError, match="not the one that was fetched"):
            RawPull.from_bytes(altered.getvalue())


def test_parse_is_pure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", None)
    for name in RECORDED:
        source, pull = source_classes()[name](), recorded_pull(name)
        first: list[RawRow] = source.parse(pull, date(2026, 8, 22))
        assert first == source.parse(pull, date(2026, 8, 22))


def test_a_session_closes_what_it_opened() -> None:
    with HttpSession() as session:
        session.requests_session()
    assert session._opened == []
