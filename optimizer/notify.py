"""Verdicts sent out through Apprise (Slack, e-mail, webhooks and many more). Their URLs hold secrets: none is shown."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from optimizer.errors import QuestionError
from optimizer.reoptimize.answer import PlanVerdict

VARIABLE = "SHARDWISE_NOTIFY_URLS"  # URLs, separated by blanks or line ends
INSTALL = 'sending verdicts needs Apprise: pip install "shardwise[notify]"'
TITLES = {
    "keep": "shardwise: keep {}",
    "switch": "shardwise: a switch is worth it for {}",
    "invalid": "shardwise: {} is no longer valid",
    "infeasible": "shardwise: {} has no answer any more",
    "failed": "shardwise: {} could not be looked at",
}


def hidden(url: str) -> str:
    """Return a URL by its kind alone: host, path and query may all be secrets (a Slack hook's path is one)."""
    kind, separator, _ = url.partition("://")
    return f"{kind}://..." if separator and kind.isprintable() and len(kind) <= 30 else "..."


def announcer(given: Sequence[str] | None) -> Callable[[PlanVerdict], str] | None:
    """Return what sends a verdict to every URL and says what went wrong, or ""; None where no URL is given.

    Args:
        given: URLs of the command line; those of the environment where there are none.

    Raises:
        QuestionError: Apprise is missing, or a URL is none that it knows.
    """
    urls = list(given or os.environ.get(VARIABLE, "").split())
    if not urls:
        return None
    services = [(url, _service(url)) for url in urls]

    def announce(verdict: PlanVerdict) -> str:
        failed = [hidden(url) for url, service in services if not _sent(service, verdict)]
        return f"{', '.join(failed)}: could not be notified of {verdict.file}" if failed else ""

    return announce


def _service(url: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it loads modules that newer Pythons leave out, where they are still there
        try:
            import apprise  # noqa: PLC0415  an extra
        except ImportError:
            raise QuestionError(INSTALL) from None
        # Its log repeats URLs and answers of servers.
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        service = apprise.Apprise()
        if not service.add(url):
            raise QuestionError(f"--notify {hidden(url)}: is no URL that Apprise knows; see https://appriseit.com")
        return service


def _sent(service: Any, verdict: PlanVerdict) -> bool:
    try:
        return bool(service.notify(title=title(verdict), body=body(verdict), notify_type=_kind(verdict)))
    except Exception:  # a service's own fault must not stop the others
        return False


def title(verdict: PlanVerdict) -> str:
    """Return the subject of a message."""
    return TITLES[verdict.verdict].format(os.path.basename(verdict.file))


def body(verdict: PlanVerdict) -> str:
    """Return a message: the verdict, why, and the money."""
    lines = [verdict.why]
    if verdict.figures is not None:
        lines.insert(0, f"{verdict.figures.question}\nplan: {verdict.figures.summary}")
        now = verdict.figures.usd_per_hour_now
        lines += [] if now is None else [f"it costs ${now:,.2f}/hour today"]
    if verdict.saving_usd_per_month:
        lines.append(f"saves ${verdict.saving_usd_per_month:,.2f} a month")
    return "\n".join(lines)


def _kind(verdict: PlanVerdict) -> str:
    return {"keep": "info", "switch": "info", "failed": "failure"}.get(verdict.verdict, "warning")
