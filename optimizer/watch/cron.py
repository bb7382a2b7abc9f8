"""Crontab lines as triggers of APScheduler, with the meaning that cron gives them.

APScheduler counts weekdays from Monday and holds a day of the month and a weekday to be both required; cron counts from
Sunday (0 or 7), and either is enough where both are given (crontab(5)).
"""

from __future__ import annotations

import re
from typing import Any

from optimizer.errors import QuestionError

DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
}
_PART = re.compile(r"(\*|(?P<first>[a-z0-9]+)(?:-(?P<last>[a-z0-9]+))?)(?:/(?P<step>\d+))?")
EXPECTED = 'expected five fields as in "0 */6 * * *" (minute, hour, day, month, weekday), or @hourly, @daily, @weekly'


def trigger(line: str, timezone: Any = None) -> Any:
    """Return the trigger of a crontab line.

    Args:
        line: minute, hour, day of the month, month, weekday; or @hourly and the like.
        timezone: that its hours are of; the machine's when not given.

    Raises:
        QuestionError: it is none.
    """
    from apscheduler.triggers.combining import OrTrigger  # noqa: PLC0415  an extra
    from apscheduler.triggers.cron import CronTrigger  # noqa: PLC0415

    fields = MACROS.get(line.strip().lower(), line).split()
    if len(fields) != 5:
        raise QuestionError(f"--cron {line!r}: {EXPECTED}")
    minute, hour, day, month, weekday = fields
    try:
        weekdays = _weekdays(weekday)
        at = {"minute": minute, "hour": hour, "month": month, "timezone": timezone}
        if day.startswith("*") or weekday.startswith("*"):
            return CronTrigger(**at, day=day, day_of_week=weekdays)
        return OrTrigger([CronTrigger(**at, day=day), CronTrigger(**at, day_of_week=weekdays)])
    except ValueError as error:
        raise QuestionError(f"--cron {line!r}: {error}; {EXPECTED}") from None


def _weekdays(field: str) -> str:
    """Return the weekdays of a crontab line by name."""
    if field == "*":
        return field
    found = set()
    for part in field.lower().split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is no weekday")
        first, last = (0, 6) if match["first"] is None else (_weekday(match["first"]), _weekday(match["first"]))
        if match["last"] is not None:
            last = _weekday(match["last"])
        elif match["first"] is not None and match["step"] is not None:
            last = 6
        step = int(match["step"] or 1)
        if step < 1 or first > last:
            raise ValueError(f"{part!r} is no range of weekdays")
        found |= {number % 7 for number in range(first, last + 1, step)}
    return ",".join(DAYS[number] for number in sorted(found))


def _weekday(text: str) -> int:
    if text in DAYS:
        return DAYS.index(text)
    if text.isdecimal() and int(text) <= 7:
        return int(text)
    raise ValueError(f"{text!r} is no weekday")
