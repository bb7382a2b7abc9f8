"""What a source of prices is, and which there are.

A source is one file in fetchers/sources/ with one subclass of `Source`: `fetch` asks the network and returns the raw
answers; `parse` is pure and turns them into rows in the source's own words. `sources()` finds the files by itself.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from typing import Any, ClassVar, Literal, get_args
from urllib.parse import urlsplit

from catalogs.errors import UnknownNameError
from fetchers.credentials import Credentials
from fetchers.errors import CredentialsError, SourceDefinitionError, UnsafeError
from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.pulls import RawPart, RawPull
from fetchers.targets import Origin, is_loopback

# Who speaks: the provider of its own prices, a market of many hosts, a reseller of other clouds, somebody's collection.
SourceKind = Literal["provider", "marketplace", "reseller", "collection"]

URL_VARIABLE = "SHARDWISE_SOURCE_URL_"
_STATED = ("name", "title", "url", "kind", "terms")


class Source(ABC):
    """One source of prices.

    Attributes:
        name: short name, the file's own with "-" for "_" (lambda_.py, a word of the
            language, is "lambda"); rows carry it.
        title: the name that people know.
        url: where its interface lies.
        kind: who speaks.
        terms: what its terms of use or its documentation say about reading prices by program.
        needs: names of the environment variables without which it cannot be asked.
        on_by_default: whether a refresh that names no source asks it.
        hosts: further hosts that it answers from.
        interval_s: shortest time between two requests.
        longest_s: longest time that a pull may take; a refresh goes on without it then.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    url: ClassVar[str] = ""
    kind: ClassVar[SourceKind]
    terms: ClassVar[str] = ""
    needs: ClassVar[tuple[str, ...]] = ()
    on_by_default: ClassVar[bool] = True
    hosts: ClassVar[frozenset[str]] = frozenset()
    interval_s: ClassVar[float] = 0.5
    longest_s: ClassVar[float] = 600.0

    def __init__(self, base_url: str | None = None):
        """Make the source ask another server than its own, for tests."""
        self.base_url = (base_url or self._overridden_url(os.environ) or self.url).rstrip("/")
        self.is_elsewhere = self.base_url != self.url.rstrip("/")

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        problems = definition_problems(cls)
        if problems:
            raise SourceDefinitionError(f"Source {cls.__module__}.{cls.__name__}: {'; '.join(problems)}.")

    @abstractmethod
    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask the source and return its answers.

        Args:
            session: the way to the network, with the credentials.
            previous: the look before, where it was kept; parts that did not change are not sent again.

        Raises:
            FetchError: it could not be asked; nothing of a half pull is returned.
        """

    @abstractmethod
    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return the rows of a pull, seen on `day`. Touches nothing but its arguments.

        Raises:
            ContentError: the answer no longer has the fields that are read.
        """

    def shortfall(self, pull: RawPull) -> str:
        """Return why a pull is not the source's whole list, by the source's own word; "" when it is."""
        return ""

    @property
    def origin(self) -> Origin:
        """Who is asked, for the session."""
        return Origin(
            self.name, self.base_url, self.hosts, 0.0 if is_loopback(_host(self.base_url)) else self.interval_s
        )

    def missing(self, credentials: Credentials) -> tuple[str, ...]:
        """Return the variables that are needed and not set."""
        return credentials.missing(self.needs)

    def state(self, credentials: Credentials) -> str:
        """Return "ready", or what it needs ("needs LAMBDA_API_KEY")."""
        missing = self.missing(credentials)
        return f"needs {', '.join(missing)}" if missing else "ready"

    def demand_credentials(self, credentials: Credentials) -> None:
        """Raise CredentialsError when one is missing."""
        missing = self.missing(credentials)
        if missing:
            raise CredentialsError(
                self.name, f"needs {', '.join(missing)}", "Set them in the environment, or leave this source out."
            )

    def get(
        self, session: HttpSession, path: str, *, label: str = "all", previous: RawPull | None = None, **options: Any
    ) -> RawPart:
        """Return the answer to a GET of a path under the base URL; options are those of `HttpSession.get`."""
        before = previous.part(label) if previous else None
        return session.get(self.origin, self.base_url + path, label=label, previous=before, **options)

    def post(self, session: HttpSession, path: str, **options: Any) -> RawPart:
        """Return the answer to a POST to a path under the base URL; options are those of `HttpSession.post`."""
        return session.post(self.origin, self.base_url + path, **options)

    def pull(self, *parts: RawPart) -> RawPull:
        """Return the answers as one pull."""
        return RawPull(self.name, parts)

    def _overridden_url(self, environ: Mapping[str, str]) -> str:
        """Return the test server that the environment names; only one on this machine is accepted."""
        variable = URL_VARIABLE + self.name.upper().replace("-", "_")
        url = environ.get(variable, "").strip()
        if url and not (urlsplit(url).scheme in ("http", "https") and is_loopback(_host(url))):
            raise UnsafeError(
                self.name,
                f"{variable} names another machine",
                "It is for tests and accepts only 127.0.0.1, ::1 or localhost.",
            )
        return url


def definition_problems(cls: type[Source]) -> list[str]:
    """Return which parts of a source are missing or are not what they should be."""
    problems = [f"{part} is missing" for part in _STATED if not getattr(cls, part, "")]
    problems += [
        f"method {part} is missing" for part in ("fetch", "parse") if getattr(cls, part) is getattr(Source, part)
    ]
    if getattr(cls, "kind", None) not in get_args(SourceKind):
        problems.append(f"kind must be one of {', '.join(get_args(SourceKind))}")
    if cls.url and urlsplit(cls.url).scheme != "https":
        problems.append("url must start with https://")
    if isinstance(cls.needs, str) or any(name != name.upper() for name in cls.needs):
        problems.append("needs must be a tuple of environment variables")
    return problems


@lru_cache(maxsize=1)
def source_classes() -> Mapping[str, type[Source]]:
    """Return every source by name, from the files in fetchers/sources (cached).

    Raises:
        SourceDefinitionError: a file defines no source, or two, or one whose name is not the file's.
    """
    package = importlib.import_module("fetchers.sources")
    return {
        cls.name: cls
        for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name)
        if not info.name.startswith("_")
        for cls in [source_in(importlib.import_module(f"fetchers.sources.{info.name}"))]
    }


def source_in(module: Any) -> type[Source]:
    """Return the one source that a module defines. Raises SourceDefinitionError."""
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Source) and value.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise SourceDefinitionError(f"{module.__name__}: expected one subclass of Source, found {len(found)}.")
    expected = module.__name__.rpartition(".")[2].rstrip("_").replace("_", "-")
    if found[0].name != expected:
        raise SourceDefinitionError(
            f"{module.__name__}: expected name = {expected!r}, as the file's, got {found[0].name!r}."
        )
    return found[0]


def sources() -> tuple[Source, ...]:
    """Return every source, by name."""
    return tuple(cls() for cls in source_classes().values())


def get_source(name: str) -> Source:
    """Return one source by name. Raises UnknownNameError with near matches."""
    classes = source_classes()
    if name not in classes:
        raise UnknownNameError("source", name, classes, f"Known are {', '.join(classes)}.")
    return classes[name]()


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""
