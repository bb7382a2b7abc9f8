"""When traffic arrives, and when GPUs are rented for it."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.errors import QuestionError
from optimizer.plan import AnswerPart

HOURS_A_DAY = 24


class Duty(AnswerPart):
    """The real load of a service whose scenario says the rate of its busiest hours.

    Attributes:
        traffic_share: mean traffic over the busiest hour's: what an API is paid for.
        rented_share: share of hours for which GPUs are rented: what self-hosting is paid for.
        said: the same for people.
    """

    traffic_share: float
    rented_share: float
    said: str


ALWAYS = Duty(traffic_share=1.0, rented_share=1.0, said="traffic at this rate at all hours")


def read_duty(duty_cycle: float | None, profile: Sequence[float] | None, hours_per_day: float | None) -> Duty:
    """Return the duty that these flags say.

    Args:
        duty_cycle: share of hours in which traffic arrives, at the scenario's rate.
        profile: traffic of each hour of a day (24 values) or a week (168), in any unit: the largest is the scenario's.
        hours_per_day: hours of each day for which GPUs are rented; all of them when not given.

    Raises:
        QuestionError: two of them contradict each other, or traffic would arrive when nothing is rented.
    """
    if duty_cycle is not None and profile is not None:
        raise QuestionError("--duty-cycle and --profile both say when traffic arrives; give one of them")
    rented = 1.0 if hours_per_day is None else hours_per_day / HOURS_A_DAY
    if profile is not None:
        share, busy = _of_profile(profile)
        said = f"a profile of {len(profile)} hours: {share:.0%} of the busiest hour's traffic on average"
    else:
        share = busy = rented if duty_cycle is None else duty_cycle
        said = f"traffic at this rate {share:.0%} of the time"
    if busy > rented * (1 + 1e-9):
        raise QuestionError(
            f"traffic arrives {busy * HOURS_A_DAY:g} hours a day, and GPUs are rented for {hours_per_day:g} "
            "(--hours-per-day)"
        )
    said += ", GPUs rented at all hours" if rented == 1 else f", GPUs rented {hours_per_day:g} hours a day"
    return ALWAYS if share == rented == 1 else Duty(traffic_share=share, rented_share=rented, said=said)


def hours_of_day(profile: Sequence[float] | None) -> tuple[float, ...] | None:
    """Return the traffic of each hour of the day; of a week's profile, the mean of its days."""
    if profile is None:
        return None
    days = len(profile) // HOURS_A_DAY
    return tuple(sum(profile[hour::HOURS_A_DAY]) / days for hour in range(HOURS_A_DAY))


def _of_profile(profile: Sequence[float]) -> tuple[float, float]:
    """Return mean traffic over the largest, and the share of hours in which there is any."""
    if len(profile) not in (HOURS_A_DAY, 7 * HOURS_A_DAY):
        raise QuestionError(f"--profile: expected 24 values (a day) or 168 (a week), got {len(profile)}")
    if max(profile) <= 0:
        raise QuestionError("--profile: expected traffic in at least one hour; all values are 0")
    return sum(profile) / max(profile) / len(profile), sum(value > 0 for value in profile) / len(profile)
