"""Where requests may go."""

from __future__ import annotations

import socket

import pytest

from fetchers.targets import Origin, is_loopback, is_private_address

SHOP = Origin("shop", "https://prices.example.com/api", hosts=frozenset({"files.example.net"}))


@pytest.mark.parametrize(
    "address",
    [
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "127.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1%eth0",
        "fd00::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:0a00:0001::",
    ],
)
def test_addresses_of_private_networks(address: str) -> None:
    assert is_private_address(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_addresses_of_the_public_internet(address: str) -> None:
    assert not is_private_address(address)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://prices.example.com/other", ""),
        ("https://PRICES.example.com:443/other", ""),
        ("https://files.example.net/x", ""),
        ("https://files.example.net:8443/x", "not a host"),
        ("http://prices.example.com/other", "no TLS"),
        ("https://prices.example.com:444/", "not a host"),
        ("https://prices.example.com.evil.net/", "not a host"),
        ("https://evil.net/prices.example.com", "not a host"),
        ("https://prices.example.com@evil.net/", "user names"),
        ("https://me:pw@prices.example.com/", "user names"),
        ("ftp://prices.example.com/", "only http and https"),
        ("/relative", "only http and https"),
        ("https://prices.example.com:99999/", "not a URL"),
        ("https://[::1", "not a URL"),
    ],
)
def test_a_source_asks_its_own_hosts_over_tls(url: str, told: str) -> None:
    reason = SHOP.why_not(url)
    assert told in reason
    assert bool(reason) == bool(told)


@pytest.mark.parametrize(("address", "told"), [("10.0.0.5", "private network"), ("93.184.216.34", "")])
def test_a_redirect_is_not_followed_where_the_name_leads_into_a_private_network(
    address: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    entry = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: entry)
    assert told in SHOP.why_not_there("https://prices.example.com/x")
    assert bool(told) == bool(SHOP.why_not_there("https://prices.example.com/x"))


def test_an_origin_on_a_private_address_is_not_redirected_to_it() -> None:
    inner = Origin("shop", "https://10.0.0.7")
    assert inner.why_not("https://10.0.0.7/a") == ""
    assert "private network" in inner.why_not_there("https://10.0.0.7/b")


@pytest.mark.parametrize(
    ("host", "loopback"), [("localhost", True), ("127.0.0.2", True), ("::1", True), ("x.org", False)]
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
