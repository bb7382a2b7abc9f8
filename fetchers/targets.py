"""Where a request may go: the source's own hosts, over TLS, and never by a redirect into a private network."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

import requests

_DEFAULT_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True)
class Origin:
    """Who is asked.

    Attributes:
        source: short name of the source, for messages.
        base_url: where its interface lies.
        hosts: further hosts, with their port where it is not the usual one, that it answers from (a redirect or a next
            page may lead there).
        interval_s: shortest time between two requests to one host.
    """

    source: str
    base_url: str
    hosts: frozenset[str] = field(default_factory=frozenset)
    interval_s: float = 0.5

    @property
    def is_loopback(self) -> bool:
        """Whether the source is a server on this machine, as in tests."""
        return is_loopback(urlsplit(self.base_url).hostname or "")

    def why_not(self, url: str) -> str:
        """Return why this source may not ask `url`; "" when it may."""
        try:
            target, base = urlsplit(url), urlsplit(self.base_url)
            port = _port(target)
        except ValueError:
            return "not a URL"
        if target.scheme not in _DEFAULT_PORTS:
            return f"only http and https are asked, not {target.scheme or 'a relative address'!r}"
        if target.username or target.password:
            return "user names and passwords do not belong into a URL"
        if target.scheme == "http" and not self.is_loopback:
            return "it has no TLS"
        host = (target.hostname or "").lower()
        same = (host, port) == ((base.hostname or "").lower(), _port(base))
        named = f"{host}:{port}" in self.hosts or (host in self.hosts and port == _DEFAULT_PORTS[target.scheme])
        if not same and not named:
            return f"{host or 'no host'} is not a host of this source"
        return ""

    def why_not_there(self, url: str) -> str:
        """Return why a redirect, or a link in an answer, may not lead to `url`; "" when it may."""
        reason = self.why_not(url)
        if reason or self.is_loopback:
            return reason
        target = urlsplit(url)
        return "it lies in a private network" if _is_private(target, url) else ""


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine by its very name."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_private_address(text: str) -> bool:
    """Return whether an address is private, loopback, link-local or otherwise not of the public internet."""
    address = ipaddress.ip_address(text.split("%", 1)[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_private_address(str(inner))
    return not address.is_global or address.is_multicast


def _is_private(target: SplitResult, url: str) -> bool:
    host = target.hostname or ""
    try:
        return is_private_address(host)
    except ValueError:
        pass
    if requests.utils.should_bypass_proxies(url, no_proxy=None) or not requests.utils.get_environ_proxies(url):
        try:
            found = socket.getaddrinfo(host, _port(target), type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return False  # no address: the request itself fails and says so
        return any(is_private_address(str(entry[4][0])) for entry in found)
    return is_loopback(host)  # the proxy looks the name up


def _port(parts: SplitResult) -> int | None:
    return parts.port or _DEFAULT_PORTS.get(parts.scheme)
