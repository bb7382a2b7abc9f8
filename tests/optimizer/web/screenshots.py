"""Pictures of the page for the documentation: python -m tests.optimizer.web.screenshots [FOLDER] (examples/ when none).

With --all every view is taken, for whoever changes the page: light and dark, wide and narrow, feasible and not.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from PIL import Image

from optimizer.web.page.session import EXAMPLES
from tests.optimizer.web.browser import NARROW, ROOT, WIDE, Visit, find_chromium, launched, visiting
from tests.optimizer.web.service import serving

SHOWN = {  # file -> example, window, colours, what part of the page
    "page.png": ("405B across nodes", (1280, 1440), "light"),
    "page-narrow.png": ("70B chat", (390, 1500), "dark"),
}
SETTLED_S = 2.0
COLOURS = 128  # the page has few, and so the files are small


def views() -> dict[str, tuple[str, tuple[int, int], str]]:
    """Return every view that is worth a look."""
    return {
        f"{name.replace(' ', '-').lower()}-{size[0]}-{scheme}.png": (name, size, scheme)
        for name in EXAMPLES
        for size in (WIDE, NARROW)
        for scheme in ("light", "dark")
    }


def take(visit: Visit, example: str, file: Path, *, whole: bool) -> None:
    """Ask an example's question and take the picture of the answer."""
    visit.open()
    visit.page.get_by_role("button", name=example, exact=True).click()
    visit.headline()
    visit.page.locator(".badge.infeasible").or_(
        visit.page.get_by_role("region", name="Layouts of the front")
    ).wait_for()
    if not whole and visit.page.viewport_size["width"] == NARROW[0]:
        visit.page.locator(".headline").first.evaluate("element => element.scrollIntoView()")
    time.sleep(SETTLED_S)
    visit.page.screenshot(path=file, full_page=whole)
    picture = Image.open(file)
    picture.convert("RGB").quantize(COLOURS).save(file, optimize=True)


def main(arguments: list[str]) -> None:
    """Take the pictures."""
    whole = "--all" in arguments
    folder = Path(next((one for one in arguments if one != "--all"), ROOT / "examples"))
    program = find_chromium()
    if program is None:
        raise SystemExit("no Chromium: set SHARDWISE_CHROMIUM, or install chromium")
    with serving() as service, launched(program) as browser:
        for name, (example, size, scheme) in (views() if whole else SHOWN).items():
            with visiting(browser, service.address, size=size, scheme=scheme) as visit:
                take(visit, example, folder / name, whole=whole)
    for name in views() if whole else SHOWN:
        print(folder / name)


if __name__ == "__main__":
    main(sys.argv[1:])
