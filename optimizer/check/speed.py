"""Rules on latency and traffic. One function per rule, named as the rule."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.check.audit import SPEED_TOLERANCE, Audit, exceeds


def ttft(audit: Audit) -> Iterator[str]:
    """Time to first token at the traffic, waiting included, at the mean or the percentile asked for."""
    target, predicted = audit.scenario.targets.ttft_ms, audit.predicted
    if target is not None and predicted is not None:
        latest = predicted.at(_level(audit))[0] * predicted.sure_ttft
        yield from _over("time to first token", latest, target, _at_traffic(audit))


def tpot(audit: Audit) -> Iterator[str]:
    """Time per output token: as asked for at the traffic, the mean at the concurrency limit."""
    target, predicted = audit.scenario.targets.tpot_ms, audit.predicted
    if target is not None and predicted is not None:
        slowest = predicted.at(_level(audit))[1] * predicted.sure_tpot
        yield from _over("time per output token", slowest, target, _at_traffic(audit))
        yield from _over("time per output token", predicted.full_tpot_s * predicted.sure_tpot, target, _at_limit(audit))


def e2e(audit: Audit) -> Iterator[str]:
    """Time from arrival to the last token at the traffic, as asked for, and without waiting at the limit, the mean."""
    target, predicted = audit.scenario.targets.e2e_ms, audit.predicted
    if target is not None and predicted is not None:
        longest = predicted.at(_level(audit))[2] * predicted.sure_e2e
        yield from _over("end-to-end time", longest, target, _at_traffic(audit))
        further = audit.scenario.workload.output_tokens - 1
        least = predicted.prefill_s + further * predicted.full_tpot_s
        yield from _over("end-to-end time without waiting", least * predicted.sure_e2e, target, _at_limit(audit))


def traffic(audit: Audit) -> Iterator[str]:
    """The replicas carry the traffic at no more than the utilization allowed."""
    predicted, most = audit.predicted, audit.scenario.max_utilization
    if predicted is not None and exceeds(predicted.utilization, most, SPEED_TOLERANCE):
        work, replicas = audit.scenario.workload, audit.layout.replicas
        yield (
            f"{work.kind} {work.demand:g} is {predicted.utilization:.1%} of what {replicas} replicas of "
            f"{audit.layout.concurrency_per_replica} requests each carry; {most:.1%} may be used"
        )


def _over(what: str, seconds: float, target_ms: float, where: str) -> Iterator[str]:
    if exceeds(seconds * 1e3, target_ms, SPEED_TOLERANCE):
        yield f"{what} is {seconds * 1e3:.2f} ms {where}, the target is {target_ms:g} ms"


def _level(audit: Audit) -> str:
    return audit.scenario.targets.at


def _at_traffic(audit: Audit) -> str:
    return f"with {audit.predicted.in_flight:.1f} requests in flight" if audit.predicted else ""


def _at_limit(audit: Audit) -> str:
    return f"at the concurrency limit of {audit.layout.concurrency_per_replica}"
