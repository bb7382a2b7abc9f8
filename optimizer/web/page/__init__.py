"""The page of `shardwise serve`: a question as a form, its answer drawn and explained, what-ifs, launch files.

    fields.py     the form's fields: where each stands in a scenario (pure)
    link.py       a question as a link, and back (pure)
    advice.py     the flags that an answer advises, as fields (pure)
    words.py      sentences and cells of tables (pure)
    charts.py     the front and the price history as SVG (pure)
    form.py       the form                        fit_bar.py  the live memory bar
    answer.py     sections of an answer           what_if.py  sliders that solve anew
    fleet.py      the answer about a fleet        keep.py     its link and its file
    launch.py     launch files                    pasting.py  a scenario pasted as YAML
    session.py    one open page: what is asked and what is shown
    problems.py   what is wrong with a question   examples.py questions to begin with
    gate.py       the token, and requests from elsewhere
    style.py      the style sheet                 elements.py the few elements all are made of

Its text is set as text by the toolkit, and its drawings come from functions that escape what they write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.routing import Mount

if TYPE_CHECKING:
    from nicegui.element import Element

    from optimizer.web.page.gate import Token
    from optimizer.web.page.session import Answers

TITLE = "shardwise"
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0067a3"/>'
    '<g fill="#fff"><rect x="6" y="6" width="9" height="9" rx="2"/><rect x="17" y="6" width="9" height="9" rx="2"/>'
    '<rect x="6" y="17" width="9" height="9" rx="2"/><rect x="17" y="17" width="9" height="9" rx="2" '
    'opacity=".45"/></g></svg>'
)
RECONNECT_S = 30.0  # a laptop that slept, or a network that was gone, finds its page as it was


def mount(app: FastAPI, workers: Answers, settings: Token) -> None:
    """Put the page under "/" of an application whose own routes are all there.

    Args:
        app: the service.
        workers: what answers questions.
        settings: who may use it.
    """
    from nicegui import core, ui  # noqa: PLC0415  an extra, and a second to import

    from optimizer.web.page.gate import Gate  # noqa: PLC0415

    names, models = _names(), _models()

    @ui.page("/", title=TITLE)
    def page(q: str | None = None) -> None:
        from optimizer.web.page.session import Session  # noqa: PLC0415

        _head()
        Session(workers, names, models).build(q)

    # The toolkit has one application a process: what an earlier one was wrapped in goes, where there was one.
    core.app.user_middleware.clear()
    core.app.middleware_stack = None
    before = len(app.router.routes)
    ui.run_with(
        app,
        title=TITLE,
        favicon=ICON,
        dark=None,
        language="en-US",
        tailwind=False,
        reconnect_timeout=RECONNECT_S,
        show_welcome_message=False,
    )
    for route in app.router.routes[before:]:
        if isinstance(route, Mount):
            route.app = Gate(route.app, settings)


def _names() -> dict[str, Sequence[str]]:
    from catalogs.gpus import load_gpus  # noqa: PLC0415
    from catalogs.providers import load_providers  # noqa: PLC0415

    gpus, providers = sorted(load_gpus()), sorted(load_providers())
    return {
        "limits.gpus": gpus,
        "limits.exclude_gpus": gpus,
        "limits.providers": providers,
        "limits.exclude_providers": providers,
    }


def _models() -> list[str]:
    from catalogs.models import bundled_models  # noqa: PLC0415

    return sorted(bundled_models(), key=str.lower)


def _head() -> Element:
    """Build what stands at the top of the page: its name, and light or dark."""
    from nicegui import ui  # noqa: PLC0415

    from optimizer.version import __version__  # noqa: PLC0415
    from optimizer.web.page.elements import Words, box, button  # noqa: PLC0415
    from optimizer.web.page.style import SHEET  # noqa: PLC0415

    ui.add_css(SHEET)
    mode = ui.dark_mode(None)
    modes: dict[str, Any] = {"System colours": None, "Light": False, "Dark": True}

    def turn() -> None:
        names = list(modes)
        chosen = names[(list(modes.values()).index(mode.value) + 1) % len(names)]
        mode.value = modes[chosen]
        tool.text = chosen
        tool.props["aria-label"] = f"Colours: {chosen}; press for the next"

    with box("header", "top") as top:
        with box("div", "title"):
            Words("shardwise", "h1")
            Words(f"The cheapest feasible GPU layout for a language model, proved. Version {__version__}.")
        with box("div", "tools"):
            tool = button("System colours", turn, label="Colours: System colours; press for the next")
    return top
