"""What a running server costs and does at a traffic, against the cheapest layout that works."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from math import isfinite
from typing import Any

import pandas as pd

from catalogs.errors import UnknownNameError
from catalogs.gpus import get_gpu
from catalogs.models import ModelSpec, load_model
from catalogs.offers import OfferTable
from optimizer.answer import Answer
from optimizer.calibration_used import calibration_used
from optimizer.choices import MICRO
from optimizer.errors import QuestionError
from optimizer.export.served import ServedLayout, release_of
from optimizer.export.served_answer import Costed, Met, ServedPrice
from optimizer.memory.eras import batch_defaults
from optimizer.plan import HOURS_PER_MONTH
from optimizer.rules import RULES, bit
from optimizer.scenario import TERMS, Scenario, Targets
from optimizer.solve import Problem, pose
from optimizer.whatif.asked import Asked, read_layout
from optimizer.whatif.explained import chosen_of
from optimizer.whatif.matches import find_matches
from optimizer.whatif.ruled_out import as_asked
from optimizer.whatif.why_not import why_not
from optimizer.wording import milliseconds, summarize

PLACES = ("provider", "region", "instance_type")


@dataclass(frozen=True, slots=True)
class Hardware:
    """Where the server runs, as far as the user says.

    Attributes:
        gpu: type, in words as of `explain --why-not`.
        nodes: how many in all.
        replicas: servers like it; one, where neither is said.
    """

    gpu: str
    provider: str | None = None
    region: str | None = None
    instance_type: str | None = None
    term: str | None = None
    nodes: int | None = None
    replicas: int | None = None


def layout_words(served: ServedLayout, hardware: Hardware) -> str:
    """Return the layout in the words of `shardwise explain --why-not`."""
    words = [hardware.gpu, f"tp={served.tp}"]
    words += [f"pp={served.pp}", f"ep={served.ep}", f"attention_dp={served.attention_dp}"]
    words += [f"weights={served.weights}", f"kv_cache={served.kv_cache}"]
    words += [f"nodes={hardware.nodes}"] if hardware.nodes is not None else []
    if (replicas := _replicas(served, hardware)) is not None:
        words.append(f"replicas={replicas}")
    named = {name: getattr(hardware, name) for name in (*PLACES, "term")}
    return " ".join([*words, *(f"{name}={value}" for name, value in named.items() if value)])


def price_served(
    served: ServedLayout, hardware: Hardware, scenario: Scenario, *, catalog: OfferTable | None = None
) -> ServedPrice:
    """Price a server at a traffic: what it costs and does today, and the cheapest layout that works.

    The server's memory is counted as its engine counts it, with its own fraction and limits. The best layout is
    counted as the question says, and may use the server's precision too.

    Args:
        served: the layout that its command asks for.
        hardware: where it runs.
        scenario: the traffic and the targets.
        catalog: offers at list prices, where the caller has them already.

    Raises:
        QuestionError: a name is none that any offer has.
        CatalogError: the model or the prices are not there.
    """
    model, today = load_model(served.catalog_model), date.today()
    question = _allowing(scenario, served, model)
    problem = pose(question, model=model, catalog=catalog, today=today)
    asked = _asked(served, hardware, problem)
    as_served = _as_served(question, served, asked)
    chosen = chosen_of(problem, today)
    now = _today(as_served, served, asked, model, problem, today)
    best = None if chosen is None else _costed(question, chosen.answer, {})
    explained = None if chosen is None else why_not(replace(chosen, scenario=as_served), asked)
    if now is not None and explained is not None and explained.nearest is not None:
        now = _with_breaks(now, explained.nearest.breaks)
    saving = None if now is None or best is None else round((now.usd_per_hour - best.usd_per_hour) * MICRO) / MICRO
    return ServedPrice(
        command=served,
        layout_words=layout_words(served, hardware),
        today=now,
        best=best,
        saving_usd_per_hour=saving,
        saving_usd_per_month=None if saving is None else saving * HOURS_PER_MONTH,
        why_not=explained,
        prices_as_of=problem.catalog.as_of,
        calibration=calibration_used(),
    )


def _replicas(served: ServedLayout, hardware: Hardware) -> int | None:
    if hardware.replicas is not None:
        return hardware.replicas * served.replicas
    return served.replicas if hardware.nodes is None else None


def _allowing(scenario: Scenario, served: ServedLayout, model: ModelSpec) -> Scenario:
    """Return the question with the server's own precision allowed, which its owner evidently accepts."""
    limits = scenario.limits
    changed: dict[str, Any] = {}
    if served.weights != str(model.checkpoint.weights) and served.weights not in limits.weights:
        changed["weights"] = (*limits.weights, served.weights)
    if limits.kv_cache == ("auto",) and served.kv_cache == "fp8" != str(model.checkpoint.own_kv_cache):
        changed["kv_cache"] = ("auto", "fp8")
    return scenario.changed("limits", **changed) if changed else scenario


def _asked(served: ServedLayout, hardware: Hardware, problem: Problem) -> Asked:
    """Return what is named of the layout; names are those of offers."""
    offers = problem.offers
    named: dict[str, Any] = {}
    for name in PLACES:
        value = getattr(hardware, name)
        known = {str(one).lower(): str(one) for one in offers[name].unique()} if value else {}
        if value and value.lower() not in known:
            raise QuestionError(f"--{name.replace('_', '-')}: {UnknownNameError(name, value, known.values())}")
        named[name] = known[value.lower()] if value else None
    if hardware.term is not None and hardware.term not in (*TERMS, "owned"):
        raise QuestionError(f"--term {hardware.term!r}: expected one of {', '.join(TERMS)}")
    return Asked(
        text=layout_words(served, hardware),
        gpus=_gpus(hardware.gpu, offers),
        nodes=hardware.nodes,
        replicas=_replicas(served, hardware),
        tp=served.tp,
        pp=served.pp,
        ep=served.ep,
        attention_dp=served.attention_dp,
        weights=served.weights,
        kv_cache=served.kv_cache,
        term=hardware.term,
        **named,
    )


def _gpus(words: str, offers: pd.DataFrame) -> tuple[str, ...]:
    try:
        found = read_layout(words, offers).gpus
    except QuestionError:
        found = ()
    return found or (get_gpu(words).name,)


def _as_served(question: Scenario, served: ServedLayout, asked: Asked) -> Scenario:
    """Return the question as the server meets it: its engine's memory, its limits, the place where it is."""
    limits: dict[str, Any] = {}
    if asked.provider is not None or asked.instance_type is not None:
        limits |= {"provider_kinds": ("any",), "providers": (), "exclude_providers": ()}
    if asked.term in TERMS:
        limits["terms"] = (*question.limits.terms, asked.term)
    gpu = get_gpu(asked.gpus[0])
    gpu_bytes = float(gpu.memory_bytes)
    held = served.max_model_len or question.workload.held_tokens
    name = release_of(served)
    batched, sequences = batch_defaults(name, gpu.name, gpu_bytes, held)
    most = (served.max_num_seqs or sequences) * served.attention_dp
    limits["max_concurrency_per_replica"] = max(1, min(most, 4096))
    memory = {
        "policy": "engine",
        "engine": name,
        "gpu_memory_utilization": served.memory_fraction(gpu_bytes),
        "max_batched_tokens": served.max_num_batched_tokens or batched,
    }
    return question.changed("limits", **limits).changed("memory", **memory)


def _today(
    as_served: Scenario, served: ServedLayout, asked: Asked, model: ModelSpec, problem: Problem, today: date
) -> Costed | None:
    """Return the cheapest offer that fits what is named, predicted whether or not it keeps the targets."""
    free = as_served.model_copy(update={"targets": Targets(at=as_served.targets.at)})
    found = find_matches(free, asked, model, problem.listed, today)
    rows = as_asked(found.rows, asked)
    broken = [int(bits).bit_count() for bits in rows["broken"]]
    rows = rows.assign(rules=broken).sort_values(["rules", "cost_micro_usd"], kind="stable")
    answer = found.answer(rows)
    if answer is None:
        return None
    breaks = {rule.name: rule.meaning for rule in RULES if int(rows.iloc[0]["broken"]) & bit(rule.name)}
    longest = served.max_model_len
    if longest is not None and longest < as_served.workload.held_tokens:
        held = as_served.workload.held_tokens
        breaks["max_model_len"] = f"requests have {held:,} tokens; --max-model-len {longest} refuses them"
    return _costed(as_served, answer, breaks)


def _costed(scenario: Scenario, answer: Answer, breaks: dict[str, str]) -> Costed:
    layout, speed = answer.layout, answer.performance
    runs = layout.concurrency_per_replica > 0
    targets = tuple(_met(scenario, answer)) if runs else ()
    said = dict(breaks)
    for one in targets:
        if not one.holds:
            shown = "not reached" if one.predicted_ms is None else milliseconds(one.predicted_ms)
            said.setdefault(
                one.name, f"at most {milliseconds(one.target_ms)} is asked ({one.at}); {shown} is predicted"
            )
    return Costed(
        summary=summarize(layout),
        layout=layout,
        usd_per_hour=answer.cost.usd_per_hour,
        usd_per_month=answer.cost.usd_per_month,
        usd_per_million_output_tokens=answer.cost.usd_per_million_output_tokens if runs else None,
        ttft_ms=_known(speed.ttft_ms) if runs else None,
        tpot_ms=_known(speed.tpot_ms) if runs else None,
        e2e_ms=_known(speed.e2e_ms) if runs else None,
        utilization=_known(speed.utilization) if runs else None,
        concurrency_per_replica=layout.concurrency_per_replica,
        targets=targets,
        feasible=not said,
        breaks=said,
    )


def _met(scenario: Scenario, answer: Answer) -> list[Met]:
    asked, found = scenario.targets, []
    for name in ("ttft", "tpot", "e2e"):
        target = getattr(asked, f"{name}_ms")
        if target is None:
            continue
        predicted = _known(answer.performance.latency_ms(name, asked.at))
        sure = None if predicted is None else predicted * answer.factors[name]
        holds = sure is not None and sure <= target * (1 + 1e-6)
        found.append(Met(name=name, at=asked.at, target_ms=target, predicted_ms=predicted, holds=holds))
    return found


def _known(value: float) -> float | None:
    return value if isfinite(value) else None


def _with_breaks(now: Costed, breaks: dict[str, str]) -> Costed:
    """Return today's layout with the words in which `explain` says what it breaks."""
    said = {rule: breaks.get(rule, words) for rule, words in now.breaks.items()}
    return now.model_copy(update={"breaks": said, "feasible": not said})
