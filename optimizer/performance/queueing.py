"""Waiting times in closed form: for one of a replica's slots, and behind other requests' prefills."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def slot_wait_seconds(
    arrival_rate: npt.ArrayLike, slots: npt.ArrayLike, service_seconds: npt.ArrayLike, cv2: npt.ArrayLike = 1.0
) -> Array:
    """Return the mean wait in seconds for one of `slots` places; infinite at or beyond saturation.

    Sakasegawa's approximation for M/G/m, exact for one slot:
    (1 + cv2)/2 x rho^(sqrt(2(m+1)) - 1) / (m (1 - rho)) x service.
    Source: H. Sakasegawa, "An approximation formula L_q = alpha beta^rho / (1 - rho)", Annals of the Institute of
    Statistical Mathematics 29, 1977.

    Args:
        arrival_rate: requests per second (Poisson).
        slots: requests served at once; 0 has an infinite wait.
        service_seconds: mean time that a request holds a slot.
        cv2: squared coefficient of variation of the service time (1 exponential, 0 constant).
    """
    rate, places = np.asarray(arrival_rate, dtype=np.float64), np.asarray(slots, dtype=np.float64)
    service = np.asarray(service_seconds, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        load = rate * service / places
        stable = load < 1.0  # false for NaN too (no slots)
        load = np.where(stable, load, 0.0)
        queue = load ** (np.sqrt(2.0 * (places + 1.0)) - 1.0) / (places * (1.0 - load))
        wait = 0.5 * (1.0 + np.asarray(cv2, dtype=np.float64)) * queue * service
    return np.where(stable, wait, np.inf)


def prefill_wait_seconds(arrival_rate: npt.ArrayLike, prefill_occupancy_seconds: npt.ArrayLike) -> Array:
    """Return the mean wait in seconds behind other requests' prefills; infinite at or beyond saturation.

    M/D/1, since prefills of one prompt length take the same time: s rho / (2 (1 - rho)).
    Source: Pollaczek-Khinchine formula with a constant service time.
    """
    service = np.asarray(prefill_occupancy_seconds, dtype=np.float64)
    load = np.asarray(arrival_rate, dtype=np.float64) * service
    stable = load < 1.0
    load = np.where(stable, load, 0.0)
    return np.where(stable, 0.5 * service * load / (1.0 - load), np.inf)
