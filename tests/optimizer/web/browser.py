"""The page as people use it: in a Chromium that may reach nothing but the service."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[3]
VARIABLE = "SHARDWISE_CHROMIUM"
PLACES = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "google-chrome", "google-chrome-stable", "chromium")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # what asks for another machine fails at once
)
WIDE, NARROW = (1280, 900), (390, 844)


def find_chromium() -> str | None:
    """Return the program to drive; None where there is none, so that browser tests are left out."""
    if chosen := os.environ.get(VARIABLE):
        return chosen
    for place in PLACES:
        if found := shutil.which(place):
            return found
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415

        with sync_playwright() as playwright:
            own = playwright.chromium.executable_path
    except Exception:
        return None
    return own if Path(own).exists() else None


@contextlib.contextmanager
def launched(program: str) -> Iterator[Browser]:
    """Start a browser."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visit:
    """A page that is open, with what went wrong on it.

    Attributes:
        complaints: errors and warnings of the browser's console.
        outside: addresses beyond the service that the page asked for.
    """

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def listen(self) -> None:
        """Watch the console and every request."""
        own = self.address.partition("://")[2]
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self._requested(request.url, own))
        self.page.on("websocket", lambda socket: self._requested(socket.url, own))

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _requested(self, url: str, own: str) -> None:
        scheme, _, rest = url.partition("://")
        if not url.startswith(("data:", "blob:")) and (scheme not in ("http", "ws") or rest.split("/")[0] != own):
            self.outside.append(url)

    def open(self, path: str = "/") -> None:
        """Go to the page and wait until it can be used."""
        self.page.goto(f"{self.address}{path}")
        self.page.get_by_role("button", name="Solve", exact=True).wait_for()
        self.page.wait_for_function("window.socket && window.socket.connected")

    def fill(self, **values: str) -> None:
        """Fill fields by their labels; "_" stands for a blank."""
        for label, value in values.items():
            self.page.get_by_label(label.replace("_", " "), exact=False).first.fill(value)

    def solve(self) -> str:
        """Press Solve and return the answer's headline."""
        self.page.get_by_role("button", name="Solve", exact=True).click()
        return self.headline()

    def headline(self) -> str:
        """Return the headline of the answer once it is there."""
        self.page.locator(".answer .summary:not(.busy *)").first.wait_for()
        return self.page.locator(".answer .headline").first.inner_text()

    def scrolls_sideways(self) -> bool:
        """Whether the page is wider than its window."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))


@contextlib.contextmanager
def visiting(
    browser: Browser,
    address: str,
    *,
    size: tuple[int, int] = WIDE,
    scheme: str = "light",
    permissions: Sequence[str] = ("clipboard-read", "clipboard-write"),
) -> Iterator[Visit]:
    """Open a window of a size, in light or dark."""
    viewport: Any = {"width": size[0], "height": size[1]}
    colours: Any = scheme
    context = browser.new_context(viewport=viewport, color_scheme=colours, permissions=list(permissions))
    try:
        visit = Visit(context.new_page(), address)
        visit.listen()
        yield visit
    finally:
        context.close()
