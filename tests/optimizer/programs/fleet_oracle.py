"""The cheapest fleet by trying everything: an oracle for small instances that shares nothing with the program.

Whether replicas carry the demand is asked of GLOP, a solver that the program does not use.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

from ortools.linear_solver import pywraplp

from optimizer.programs.fleet_instance import FleetAnswer, FleetInstance, Kind, NodeLimit, Option, Site

SLACK = 1e-7
Nodes = dict[tuple[int, int, int], int]


class Oracle:
    """Tries every number of nodes of every option, in every period, with every way to fill them."""

    def __init__(self, instance: FleetInstance):
        self.instance = instance
        self.periods = range(len(instance.demand))
        self.groups = instance.groups or (0,) * len(instance.demand[0])
        self.known: dict[object, bool] = {}

    def cheapest(self) -> Fraction | None:
        """Return the least cost in micro-dollars; None where nothing is feasible."""
        hours = [Fraction(repr(hour)) for hour in self.instance.hours]
        budget = self.instance.budget_micro_usd
        plans = []
        for nodes in self.node_plans():
            cost = self.cost(nodes, hours)
            if budget is None or cost <= budget * sum(hours):
                plans.append((cost, nodes))
        plans.sort(key=lambda plan: plan[0])
        return next((cost for cost, nodes in plans if self.carries(nodes)), None)

    def node_plans(self) -> Iterator[Nodes]:
        """All numbers of nodes that keep the rules on nodes."""
        options = []
        for s, site in enumerate(self.instance.sites):
            for o, option in enumerate(site.options):
                counts = range(option.node_cap + 1)
                if option.committed:
                    options.append([{(s, o, t): n for t in self.periods} for n in counts])
                else:
                    plans = itertools.product(counts, repeat=len(self.periods))
                    options.append(
                        [
                            {(s, o, t): n for t, n in zip(self.periods, plan, strict=True)}
                            for plan in plans
                            if self.long_enough(plan, option.min_periods)
                        ]
                    )
        for parts in itertools.product(*options):
            nodes = {key: count for part in parts for key, count in part.items()}
            if self.keeps_node_rules(nodes):
                yield nodes

    def long_enough(self, plan: tuple[int, ...], least: int) -> bool:
        """Whether nodes can be switched on and off in turn so that each stays on long enough (first on, first off)."""
        if min(plan) == max(plan):
            return True
        for t in self.periods:
            recent = [(t - back) % len(plan) for back in range(least)]
            if plan[t] < sum(max(plan[r] - plan[r - 1], 0) for r in recent):
                return False
        return True

    def keeps_node_rules(self, nodes: Nodes) -> bool:
        """Limits, providers, regions."""
        sites = self.instance.sites
        for t in self.periods:
            at = [sum(n for (s, _, p), n in nodes.items() if (s, p) == (site, t)) for site in range(len(sites))]
            for limit in self.instance.limits:
                if sum(weight * at[site] for site, weight in limit.weights.items()) > limit.most:
                    return False
            if len({sites[s].provider for s, n in enumerate(at) if n}) < self.instance.min_providers > 1:
                return False
            if len({sites[s].region for s, n in enumerate(at) if n}) < self.instance.min_regions > 1:
                return False
        return True

    def cost(self, nodes: Nodes, hours: list[Fraction]) -> Fraction:
        """Node hours at their prices, and starts."""
        total = Fraction(0)
        for (s, o, t), count in nodes.items():
            option = self.instance.sites[s].options[o]
            total += count * option.price_micro_usd * hours[t]
            if not option.committed:
                total += option.start_micro_usd * max(count - nodes[s, o, (t - 1) % len(hours)], 0)
        return total

    def carries(self, nodes: Nodes) -> bool:
        """Whether some choice of kinds, filling and shares serves all demand in every period."""
        at = [
            tuple(
                sum(n for (s, _, p), n in nodes.items() if (s, p) == (site, t))
                for site in range(len(self.instance.sites))
            )
            for t in self.periods
        ]
        for kinds in self.kind_choices():
            if self.instance.whole_classes:
                if any(self.carries_whole(at, given) for given in self.assignments(kinds)):
                    return True
            elif all(self.carries_period(t, at[t], kinds) for t in self.periods):
                return True
        return False

    def kind_choices(self) -> Iterator[frozenset[int]]:
        """The largest sets of kinds that limits on kinds allow."""
        kinds = range(len(self.instance.kinds))
        label = {
            k: ("given", kind.label) if kind.label >= 0 else ("own", k) for k, kind in enumerate(self.instance.kinds)
        }
        if self.instance.max_kinds is None and self.instance.max_kinds_per_group is None:
            yield frozenset(kinds)
            return
        names = sorted(set(label.values()))
        for size in range(len(names), 0, -1):
            for chosen in itertools.combinations(names, size):
                picked = frozenset(k for k in kinds if label[k] in chosen)
                if self.instance.max_kinds is not None and size > self.instance.max_kinds:
                    continue
                per_group = [
                    len({label[k] for k in picked if self.serves_group(k, group)}) for group in set(self.groups)
                ]
                if self.instance.max_kinds_per_group is None or max(per_group) <= self.instance.max_kinds_per_group:
                    yield picked

    def serves_group(self, kind: int, group: int) -> bool:
        return any(r > 0 and self.groups[c] == group for c, r in enumerate(self.instance.kinds[kind].rates))

    def fillings(self, at: tuple[int, ...], kinds: frozenset[int]) -> Iterator[list[list[dict[int, int]]]]:
        """Every way to fill the nodes: by site, the content of each unit (a node, or a replica that spans some)."""
        yield from (
            list(filling) for filling in itertools.product(*(self.site_fillings(s, n, kinds) for s, n in enumerate(at)))
        )

    def site_fillings(self, site: int, nodes: int, kinds: frozenset[int]) -> list[list[dict[int, int]]]:
        mine = [k for k in sorted(kinds) if self.instance.kinds[k].site == site]
        spanning = [k for k in mine if self.instance.kinds[k].nodes > 1]
        contents = self.contents(site, [k for k in mine if self.instance.kinds[k].nodes == 1])
        found = []
        for counts in itertools.product(*(range(nodes // self.instance.kinds[k].nodes + 1) for k in spanning)):
            left = nodes - sum(self.instance.kinds[k].nodes * n for k, n in zip(spanning, counts, strict=True))
            if left >= 0:
                units = [{k: 1} for k, n in zip(spanning, counts, strict=True) for _ in range(n)]
                found += [units + list(held) for held in itertools.combinations_with_replacement(contents, left)]
        return found

    def contents(self, site: int, kinds: list[int]) -> list[dict[int, int]]:
        """All that a node may hold; only what nothing can be added to, unless a loss could make less be more."""
        gpus = self.instance.sites[site].gpus_per_node
        sizes = [self.instance.kinds[k].gpus for k in kinds]
        found = []
        for counts in itertools.product(*(range(gpus // size + 1) for size in sizes)):
            left = gpus - sum(size * n for size, n in zip(sizes, counts, strict=True))
            full = all(left < size for size in sizes)
            if left >= 0 and (full or self.instance.survive == "node"):
                found.append({k: n for k, n in zip(kinds, counts, strict=True) if n})
        return found

    def carries_period(self, t: int, at: tuple[int, ...], kinds: frozenset[int]) -> bool:
        key = (t, at, kinds)
        if key not in self.known:
            self.known[key] = any(self.filling_carries(t, filling) for filling in self.fillings(at, kinds))
        return self.known[key]

    def filling_carries(self, t: int, filling: list[list[dict[int, int]]]) -> bool:
        total = self.totals(unit for site in filling for unit in site)
        return self.fits(t, total, spot=True) and all(self.fits(t, left, spot=False) for left in self.after(filling))

    def after(self, filling: list[list[dict[int, int]]]) -> Iterator[dict[int, int]]:
        """What is left after each loss that has to be survived."""
        units = [unit for site in filling for unit in site]
        if self.instance.survive == "node":
            for gone in range(len(units)):
                yield self.totals(unit for index, unit in enumerate(units) if index != gone)
        if self.instance.survive == "provider":
            for name in {site.provider for site in self.instance.sites}:
                kept = [held for s, held in enumerate(filling) if self.instance.sites[s].provider != name]
                if any(held for s, held in enumerate(filling) if self.instance.sites[s].provider == name):
                    yield self.totals(unit for held in kept for unit in held)

    def totals(self, units) -> dict[int, int]:
        total: dict[int, int] = {}
        for unit in units:
            for kind, count in unit.items():
                total[kind] = total.get(kind, 0) + count
        return total

    def fits(self, t: int, replicas: dict[int, int], *, spot: bool) -> bool:
        key = (t, tuple(sorted(replicas.items())), spot)
        if key not in self.known:
            self.known[key] = self.most_served(t, replicas, spot=spot) >= 1 - SLACK
        return self.known[key]

    def most_served(self, t: int, replicas: dict[int, int], *, spot: bool = True) -> float:
        """Return the largest factor on the demand of a period that given replicas carry."""
        solver = pywraplp.Solver.CreateSolver("GLOP")
        factor = solver.NumVar(0, 100, "factor")
        demand = self.instance.demand[t]
        rate = {
            (k, c): solver.NumVar(0, solver.infinity(), "")
            for k in replicas
            for c, r in enumerate(self.instance.kinds[k].rates)
            if r > 0
        }
        for c, amount in enumerate(demand):
            solver.Add(sum(var for (_, other), var in rate.items() if other == c) == amount * factor)
        for k, count in replicas.items():
            rates = self.instance.kinds[k].rates
            solver.Add(sum(var / rates[c] for (other, c), var in rate.items() if other == k) <= count)
        if spot and self.instance.max_spot_share < 1:
            for group in set(self.groups):
                total = sum(amount for c, amount in enumerate(demand) if self.groups[c] == group)
                on_spot = [
                    var
                    for (k, c), var in rate.items()
                    if self.groups[c] == group and self.instance.sites[self.instance.kinds[k].site].spot
                ]
                solver.Add(sum(on_spot) <= self.instance.max_spot_share * total * factor)
        solver.Maximize(factor)
        status = solver.Solve()
        assert status == pywraplp.Solver.OPTIMAL
        return factor.solution_value()

    def assignments(self, kinds: frozenset[int]) -> Iterator[tuple[int, ...]]:
        """Each class with demand to one kind that can serve it (-1 where there is none to serve)."""
        wanted = [any(period[c] > 0 for period in self.instance.demand) for c in range(len(self.groups))]
        choices = [
            [k for k in sorted(kinds) if self.instance.kinds[k].rates[c] > 0] if wanted[c] else [-1]
            for c in range(len(self.groups))
        ]
        yield from itertools.product(*choices)

    def carries_whole(self, at: list[tuple[int, ...]], given: tuple[int, ...]) -> bool:
        for t in self.periods:
            need: dict[int, float] = {}
            for c, kind in enumerate(given):
                if kind >= 0:
                    need[kind] = need.get(kind, 0.0) + self.instance.demand[t][c] / self.instance.kinds[kind].rates[c]
            kinds = frozenset(need)
            if not any(
                all(
                    self.totals(u for site in filling for u in site).get(k, 0) >= amount - SLACK
                    for k, amount in need.items()
                )
                for filling in self.fillings(at[t], kinds)
            ):
                return False
            if self.instance.max_spot_share < 1 and not self.spot_holds(t, given):
                return False
        return True

    def spot_holds(self, t: int, given: tuple[int, ...]) -> bool:
        for group in set(self.groups):
            mine = [c for c in range(len(given)) if self.groups[c] == group and given[c] >= 0]
            total = sum(self.instance.demand[t][c] for c in mine)
            spot = sum(
                self.instance.demand[t][c] for c in mine if self.instance.sites[self.instance.kinds[given[c]].site].spot
            )
            if spot > self.instance.max_spot_share * total + SLACK:
                return False
        return True


def draw_instance(seed: int, **asked: object) -> FleetInstance:
    """Draw a small instance; `asked` sets fields of it, and how it is drawn.

    Args:
        seed: of the draw.
        asked: `sites`, `gpus` (sizes of nodes), `sizes` (of replicas), `classes`, `models`, `periods`, `options`
            ("hourly", "mixed"), `cap`; every other name is a field of the instance.
    """
    rng = random.Random(seed)
    draw = {"sites": 2, "gpus": (4, 8), "sizes": (1, 2, 4), "classes": 2, "models": 1, "periods": 1, "cap": 2}
    draw |= {"options": "hourly", "kinds": 4, "load": 1.5}
    draw |= {name: asked.pop(name) for name in list(asked) if name in draw}
    sites = []
    for s in range(draw["sites"]):
        gpus = rng.choice(draw["gpus"])
        price = gpus * rng.randint(50, 400) * 10_000
        options = [Option(price, node_cap=draw["cap"])]
        if draw["options"] == "mixed":
            options = [
                Option(
                    price, draw["cap"], start_micro_usd=rng.choice([0, price // 3]), min_periods=rng.choice([1, 1, 2])
                ),
                Option(price * 6 // 10, draw["cap"], committed=True),
            ]
        sites.append(Site(gpus, tuple(options), provider=f"p{s % 2}", region=f"r{s}", spot=s % 2 == 1))
    count = draw["classes"] * draw["models"]
    groups = tuple(c // draw["classes"] for c in range(count))
    kinds = []
    for k in range(draw["kinds"]):
        site = k % len(sites)
        model = rng.randrange(draw["models"]) if k >= draw["models"] else k
        size = min(rng.choice(draw["sizes"]), sites[site].gpus_per_node)
        speed = size * rng.uniform(0.6, 1.4)
        rates = [
            0.0 if groups[c] != model or rng.random() < 0.15 else round(speed * rng.uniform(0.5, 2.0), 3)
            for c in range(count)
        ]
        kinds.append(Kind(site, size, tuple(rates)))
    amounts = [round(rng.uniform(0.3, 1.5) * draw["load"] * 4 / count, 3) for _ in range(count)]
    demand = tuple(
        tuple(round(amount * rng.uniform(0.4, 1.0), 3) if draw["periods"] > 1 else amount for amount in amounts)
        for _ in range(draw["periods"])
    )
    return FleetInstance(tuple(sites), tuple(kinds), demand, hours=(1.0,) * draw["periods"], groups=groups, **asked)


def broken(instance: FleetInstance, answer: FleetAnswer) -> list[str]:
    """Audit an answer from first principles; return what is wrong with it."""
    oracle = Oracle(instance)
    hours = [Fraction(repr(hour)) for hour in instance.hours]
    full = {
        (s, o, t): answer.nodes.get((s, o, t), 0)
        for s, site in enumerate(instance.sites)
        for o in range(len(site.options))
        for t in oracle.periods
    }
    wrong = []
    if not oracle.keeps_node_rules(full):
        wrong.append("node rules")
    for (s, o, t), count in full.items():
        if count > instance.sites[s].options[o].node_cap:
            wrong.append(f"cap of {(s, o, t)}")
        if instance.sites[s].options[o].committed and count != full[s, o, 0]:
            wrong.append(f"committed {(s, o, t)}")
    if answer.cost_micro_usd != float(oracle.cost(full, hours)):
        wrong.append(f"cost {answer.cost_micro_usd} is {float(oracle.cost(full, hours))}")
    if instance.budget_micro_usd is not None and answer.cost_micro_usd > instance.budget_micro_usd * sum(hours):
        wrong.append("budget")
    for t in oracle.periods:
        wrong += [f"period {t}: {what}" for what in _broken_in(instance, answer, full, t)]
    labels = {(k if instance.kinds[k].label < 0 else -1 - instance.kinds[k].label) for k, _ in answer.replicas}
    if instance.max_kinds is not None and len(labels) > instance.max_kinds:
        wrong.append("max_kinds")
    return wrong


def _broken_in(instance: FleetInstance, answer: FleetAnswer, full: Nodes, t: int) -> Iterator[str]:
    scale = 1.0 if answer.scale is None else answer.scale
    oracle = Oracle(instance)
    rates = {(k, c): r for (k, c, p), r in answer.rates.items() if p == t}
    replicas = {k: n for (k, p), n in answer.replicas.items() if p == t}
    yield from _overfull(instance, instance.demand[t], rates, replicas, scale)
    yield from _badly_packed(instance, answer, replicas, full, t)
    if instance.whole_classes and len({c for _, c in rates}) != len(rates):
        yield "a class is split"
    if instance.max_spot_share < 1:
        for group in set(oracle.groups):
            mine = {key: r for key, r in rates.items() if oracle.groups[key[1]] == group}
            spot = sum(r for (k, _), r in mine.items() if instance.sites[instance.kinds[k].site].spot)
            if spot > instance.max_spot_share * sum(mine.values()) * (1 + 1e-6):
                yield "spot share"
    if instance.survive != "nothing":
        yield from _unsurvived(instance, answer, replicas, full, t, scale)


def _badly_packed(instance, answer, replicas, full, t) -> Iterator[str]:
    held: dict[int, int] = {}
    used = [0] * len(instance.sites)
    for unit in answer.packing[t]:
        used[unit.site] += unit.units * unit.span
        if unit.span == 1:
            if (
                sum(instance.kinds[k].gpus * n for k, n in unit.replicas.items())
                > instance.sites[unit.site].gpus_per_node
            ):
                yield f"node overfull {unit}"
        elif [instance.kinds[k].nodes * n for k, n in unit.replicas.items()] != [unit.span]:
            yield f"span {unit}"
        for k, n in unit.replicas.items():
            if instance.kinds[k].site != unit.site:
                yield f"wrong site {unit}"
            held[k] = held.get(k, 0) + n * unit.units
    if held != replicas:
        yield f"packing holds {held}, not {replicas}"
    for s, count in enumerate(used):
        if count != sum(n for (site, _, p), n in full.items() if (site, p) == (s, t)):
            yield f"site {s} packs {count} nodes"


def _unsurvived(instance, answer, replicas, full, t, scale) -> Iterator[str]:
    stated = {(f.site, f.provider, tuple(sorted(f.lost.items()))): f for f in answer.failures if f.period == t}
    if instance.survive == "node":
        possible = {
            (unit.site, None, tuple(sorted(unit.replicas.items()))) for unit in answer.packing[t] if unit.replicas
        }
    else:
        names = {instance.sites[s].provider for (s, _, p), n in full.items() if n and p == t}
        possible = {
            (
                None,
                name,
                tuple(
                    sorted(
                        (k, n) for k, n in replicas.items() if instance.sites[instance.kinds[k].site].provider == name
                    )
                ),
            )
            for name in names
        }
    if set(stated) != possible:
        yield f"failures {set(stated)} are not {possible}"
    for failure in stated.values():
        left = {k: n - failure.lost.get(k, 0) for k, n in replicas.items()}
        yield from _overfull(instance, instance.demand[t], dict(failure.rates), left, scale)


def _overfull(instance, demand, rates, replicas, scale) -> Iterator[str]:
    for c, amount in enumerate(demand):
        served = sum(r for (_, other), r in rates.items() if other == c)
        if served < amount * scale * (1 - 1e-9):
            yield f"class {c} gets {served} of {amount * scale}"
    load: dict[int, float] = {}
    for (k, c), rate in rates.items():
        if instance.kinds[k].rates[c] <= 0:
            yield f"kind {k} cannot serve class {c}"
        else:
            load[k] = load.get(k, 0.0) + rate / instance.kinds[k].rates[c]
    for k, amount in load.items():
        if amount > replicas.get(k, 0) * (1 + 1e-8):
            yield f"kind {k} is loaded {amount} on {replicas.get(k, 0)}"


__all__ = ["NodeLimit", "Oracle", "broken", "draw_instance"]
