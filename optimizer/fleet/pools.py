"""The pools of an answer: replicas that run alike, what they serve, and how they do at that mix."""

from __future__ import annotations

from collections.abc import Mapping
from operator import mul

from optimizer.fleet.hours import Hours
from optimizer.fleet.mix import Mix, Part, at_mix
from optimizer.fleet.plan import Pool, Served


def describe_pool(hours: Hours, kind: int, name: str, site_ids: Mapping[int, str]) -> Pool:
    """Return the pool of a replica kind that the answer uses."""
    problem = hours.problem
    number, row = problem.posed.kinds[kind]
    kinds = problem.models[number]
    facts, program = kinds.table.iloc[row], problem.instance.kinds[kind]
    served = _classes(hours, kind)
    replicas = hours.replicas(kind)
    # The replicas that a node has room for may be more than the load needs: the fullest hour is that of the most load.
    loads = [
        sum(hours.rates(kind, index)[hour] / program.rates[index] for index in served) / max(count, 1)
        for hour, count in enumerate(replicas)
    ]
    peak = max(range(hours.count), key=lambda hour: loads[hour])
    mix, parts = _mix(hours, kind, peak, served)
    at = {part.demand.name: position for position, part in enumerate(parts)}
    length = problem.traffic.hours
    serves = []
    for index in served:
        demand, rates = problem.traffic.demands[index], hours.rates(kind, index)
        position = at.get(demand.name)
        latencies = mix.latencies_ms[position] if position is not None else {}
        mine, whole = (sum(map(mul, values, length)) for values in (rates, demand.rates))
        serves.append(
            Served(
                class_name=demand.name,
                share=mine / whole,
                requests_per_second_by_period=rates,
                capacity_requests_per_second=program.rates[index],
                concurrency=int(kinds.concurrency[row, kinds.classes.index(index)]),
                ttft_ms=latencies["ttft"],
                tpot_ms=latencies["tpot"],
                e2e_ms=latencies["e2e"],
                holds=mix.holds[position] if position is not None else True,
            )
        )
    step = mix.answer.performance.step_ms
    traffic = problem.scenario.traffic[kinds.model]
    return Pool(
        id=name,
        model=traffic.label,
        model_id=traffic.model,
        site=site_ids[program.site],
        weights=str(facts["weights"]),
        kv_cache=str(facts["kv_cache"]),
        tp=int(facts["tp"]),
        pp=int(facts["pp"]),
        ep=int(facts["ep"]),
        attention_dp=int(facts["attention_dp"]),
        gpus_per_replica=int(facts["gpus"]),
        nodes_per_replica=int(facts["nodes_per_replica"]),
        targets=kinds.targets[int(facts["targets"])].model_dump(),
        replicas_by_period=replicas,
        serves=tuple(serves),
        utilization=loads[peak],
        concurrency_per_replica=mix.concurrency,
        memory=mix.memory,
        performance=mix.answer.performance,
        communication_share=step.get("all_reduce", 0.0) / max(sum(step.values()), 1e-12),
    )


def _classes(hours: Hours, kind: int) -> list[int]:
    """Return the classes of a pool: what it serves, if after a loss only; of one that stands by, all it could."""
    kinds = hours.problem.models[hours.problem.posed.kinds[kind][0]]
    after_loss = {index for one in hours.answer.failures for of, index in one.rates if of == kind}
    served = [index for index in kinds.classes if any(hours.rates(kind, index)) or index in after_loss]
    rates = hours.problem.instance.kinds[kind].rates
    return served or [index for index in kinds.classes if rates[index] > 0]


def _mix(hours: Hours, kind: int, peak: int, served: list[int]) -> tuple[Mix, list[Part]]:
    problem = hours.problem
    number, row = problem.posed.kinds[kind]
    kinds, program = problem.models[number], problem.instance.kinds[kind]
    targets = int(kinds.table["targets"].iloc[row])
    # A class that comes at other hours only is looked at beside those of the fullest one, with next to no traffic.
    least = 1e-6
    parts = [
        Part(
            problem.traffic.demands[index],
            max(hours.rates(kind, index)[peak], least),
            program.rates[index],
            int(kinds.concurrency[row, kinds.classes.index(index)]),
        )
        for index in served
    ]
    question = next(one for one in kinds.scenarios[targets] if one is not None)
    replicas = max(hours.replicas(kind)[peak], 1)
    offer = problem.posed.sites[program.site].payments[0].offer
    return at_mix(kinds, row, parts, replicas, question, offer, problem.catalog.frame), parts
