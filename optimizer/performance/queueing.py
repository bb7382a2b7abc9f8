"""The wait for one of a replica's slots, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from optimizer.performance.distributions import SHARES, Level, normal_cdf, normal_density

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SlotWait:
    """The wait for a slot: nobody waits with probability 1 - `share`, others an exponential time of mean `if_any_s`.

    Both are 1 and infinite where the replica is saturated.
    """

    share: Array
    if_any_s: Array

    @property
    def mean_s(self) -> Array:
        """Mean wait in seconds."""
        with np.errstate(invalid="ignore"):
            return np.where(self.share > 0.0, self.share * self.if_any_s, 0.0)

    def at(self, level: Level) -> Array:
        """Return a percentile of the wait in seconds."""
        with np.errstate(divide="ignore", invalid="ignore"):
            above = np.log(np.maximum(self.share / (1.0 - SHARES[level]), 1.0))
            return np.where(above > 0.0, above * self.if_any_s, 0.0)

    def add(self, mean: Array, percentile: Array, waited: Array) -> Array:
        """Return the percentile of a time and this wait together.

        Args:
            mean: mean of the time.
            percentile: its percentile.
            waited: the same percentile of the wait.
        """
        apart = percentile - mean
        with np.errstate(invalid="ignore"):
            return np.asarray(mean + np.where(apart > 0.0, np.hypot(apart, waited), apart + waited))


def slot_wait(
    in_flight: Array,
    deviation: Array,
    slots: Array,
    arrival_rate: Array,
    most: Array,
    *,
    arrivals_cv2: float = 1.0,
    slot_cv2: float = 1.0,
) -> SlotWait:
    """Return the wait for a slot where the time in a slot grows with those in flight.

    The number in flight is normal below the slots and exponential above them, with one density where they meet. With a
    time that does not grow this is the formula of S. Halfin and W. Whitt, "Heavy-traffic limits for queues with many
    exponential servers", Operations Research 29, 1981.

    Args:
        in_flight: mean requests in flight if there were slots for all.
        deviation: their standard deviation.
        slots: requests served at once; with 0 all wait for ever.
        arrival_rate: requests per second.
        most: requests per second that all slots together serve.
        arrivals_cv2: squared coefficient of variation of the times between arrivals.
        slot_cv2: the same of the times in a slot.
    """
    stable = arrival_rate < most
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.maximum(deviation, 1e-9)
        spare = np.where(stable, most - arrival_rate, 0.0)
        # Requests are whole: those below the slots end half a request before them.
        below = normal_cdf((slots - 0.5 - in_flight) / spread)
        above = normal_density((slots - in_flight) / spread) / spread * 0.5 * (1.0 + arrivals_cv2) * most / spare
        share = np.where(stable, above / (above + below), 1.0)
        return SlotWait(share=share, if_any_s=0.5 * (arrivals_cv2 + slot_cv2) / spare)
