"""The fleet as a mixed-integer program: whole nodes and replicas, shares of each class, a method or function a rule.

Loads are counted in replicas and shares in parts of a class, so that every row is of the order of one whatever the
rates are; costs are counted in the step that all of them are multiples of.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from ortools.math_opt.python import mathopt

from optimizer.programs.fleet_counts import Counts
from optimizer.programs.fleet_instance import UNLIMITED, FleetAnswer, FleetInstance
from optimizer.programs.fleet_money import cost_step, node_cost
from optimizer.programs.fleet_packing import patterns, slot_rows
from optimizer.programs.fleet_rules import Expression, add_rules
from optimizer.programs.fleet_table import FleetTable

Columns = Sequence[Sequence[Mapping[tuple[int, int], int]]]
NodeContents = Callable[[int], Sequence[dict[int, int]]]
MISSING = 10.0  # times the dearest node
LARGEST_COST = 1e6  # of a node, in the objective


@dataclass(frozen=True, slots=True)
class Room:
    """Sum of weight x replicas (by kind and period) <= what there is."""

    used: Mapping[tuple[int, int], int]
    there: Expression
    row: mathopt.LinearConstraint


class FleetModel:
    """The variables and rules of a fleet; each rule can be left out, by its name.

    Attributes:
        nodes: (site, option, period) -> nodes paid for; of a committed option the same variable in every period.
        replicas: (kind, period) -> replicas.
        shares: (kind, bundle, period) -> share of the bundle that the kind serves; where classes are whole, how many
            of them, the same variable in every period.
        scale: 1, or the variable that says which part of the demand is served.
        takes: (kind, bundle) -> whether the kind serves the bundle, where a part of whole classes is served.
        filled: (site, period) -> (what a node holds, nodes that hold it), where counting GPUs is not enough.
        served, limit_rows, budget_row: rows of (bundle, period), of limits by position (of the last period), and the
            budget's.
        room: the rows that couple replicas with nodes.
        taken: where sets of replicas are chosen from, each with its literal.
    """

    def __init__(
        self,
        table: FleetTable,
        without: Iterable[str] = (),
        *,
        whole_numbers: bool = True,
        scaled: bool = False,
        unbounded: bool = False,
        patterns_of: NodeContents | None = None,
        columns: Columns | None = None,
        costly_room: bool = False,
    ):
        """Build the model.

        Args:
            table: the instance.
            without: names of rules to leave out.
            whole_numbers: else its linear relaxation.
            scaled: serve a part of the demand, `scale`, the same of every class.
            unbounded: let counts and scale go as far as caps, limits and budget do, not only as far as demand needs.
            patterns_of: (site, kinds) -> all that a node may hold by kind, where it matters what is on one node.
            columns: by block, sets of replicas that carry its demand, of which one is taken: then there are no shares.
            costly_room: let room be missing, at a price (see `missing_room`).
        """
        self.table = table
        self.instance: FleetInstance = table.instance
        self.without = frozenset(without)
        self.whole_numbers = whole_numbers
        self.unbounded = unbounded
        self.patterns_of = patterns_of
        self.model = mathopt.Model()
        self.nodes: dict[tuple[int, int, int], mathopt.Variable] = {}
        self.replicas: dict[tuple[int, int], Any] = {}
        self.columns = columns
        self.costly_room = costly_room
        self.missing: list[mathopt.Variable] = []
        self.taken: list[tuple[Mapping[tuple[int, int], int], mathopt.Variable]] = []
        self.room: list[Room] = []
        self.shares: dict[tuple[int, int, int], mathopt.Variable] = {}
        self.takes: dict[tuple[int, int], mathopt.Variable] = {}
        self.starts: dict[tuple[int, int, int], mathopt.Variable] = {}
        self.filled: dict[tuple[int, int], list[tuple[dict[int, int], mathopt.Variable]]] = {}
        self.labels: dict[tuple[bool, int], mathopt.Variable] = {}
        self.served: dict[tuple[int, int], mathopt.LinearConstraint] = {}
        self.limit_rows: dict[int, mathopt.LinearConstraint] = {}
        self.budget_row: mathopt.LinearConstraint | None = None
        self.cost_rows: dict[mathopt.Variable, Fraction] = {}
        most = math.inf if unbounded else 1.0
        self.scale: Expression = self.model.add_variable(lb=0.0, ub=most) if scaled else 1.0
        self.scaled = scaled
        self.add_nodes()
        self.add_switching()
        self.add_replicas()
        if columns is None:
            self.add_shares()
            self.add_traffic()
        self.add_packing()
        add_rules(self)

    # -- variables ---------------------------------------------------------------------------------------------------

    def integer(self, most: float) -> mathopt.Variable:
        """Return a count from 0 to `most`."""
        return self.model.add_variable(lb=0.0, ub=most, is_integer=self.whole_numbers)

    def add_nodes(self) -> None:
        """Nodes are paid for by option; committed ones are the same number in every period."""
        for site, where in enumerate(self.instance.sites):
            if site not in self.table.kinds_at and max(self.instance.min_providers, self.instance.min_regions) <= 1:
                continue
            most = UNLIMITED if self.unbounded else self.table.most_nodes(site)
            for option, one in enumerate(where.options):
                cap = most if "stock" in self.without else min(most, one.node_cap)
                for period in self.table.periods:
                    if one.committed and period > 0:
                        self.nodes[site, option, period] = self.nodes[site, option, 0]
                        continue
                    variable = self.integer(cap)
                    self.nodes[site, option, period] = variable
                    self.cost_rows[variable] = node_cost(self.instance, site, option, period)

    def add_switching(self) -> None:
        """A node that is switched on costs its start, and is paid for at least so many periods."""
        periods = len(self.instance.demand)
        for (site, option, period), variable in list(self.nodes.items()):
            one = self.instance.sites[site].options[option]
            if one.committed or periods == 1 or (one.start_micro_usd == 0 and one.min_periods <= 1):
                continue
            started = self.model.add_variable(lb=0.0, ub=variable.upper_bound)
            self.starts[site, option, period] = started
            self.cost_rows[started] = Fraction(one.start_micro_usd)
            before = self.nodes[site, option, (period - 1) % periods]
            self.model.add_linear_constraint(started >= variable - before)
        for site, option, period in self.starts:
            window = range(self.instance.sites[site].options[option].min_periods)
            recent = [self.starts[site, option, (period - back) % periods] for back in window]
            self.model.add_linear_constraint(mathopt.fast_sum(recent) <= self.nodes[site, option, period])

    def add_replicas(self) -> None:
        """Replicas are whole, and never more than could be of use."""
        if self.columns is not None:
            self._add_columns(self.columns)
            return
        for kind in self.table.serves:
            for period in self.table.periods:
                most = self.table.most_replicas(kind, period)
                if most and self.is_its_node(kind):
                    self.replicas[kind, period] = self.nodes[self.instance.kinds[kind].site, 0, period]
                elif most:
                    self.replicas[kind, period] = self.integer(math.inf if self.unbounded else most)

    def is_its_node(self, kind: int) -> bool:
        """Whether a replica is a node: one kind on the site, one replica on a node, paid for in one way."""
        one = self.instance.kinds[kind]
        return (
            self.whole_numbers
            and self.columns is None
            and self.patterns_of is None
            and len(self.table.kinds_at[one.site]) == 1
            and len(self.instance.sites[one.site].options) == 1
            and one.nodes == 1
            and self.instance.sites[one.site].gpus_per_node // one.gpus == 1
        )

    def _add_columns(self, columns: Columns) -> None:
        held: dict[tuple[int, int], list[Expression]] = {
            (kind, period): []
            for kind in self.table.serves
            for period in self.table.periods
            if self.table.most_replicas(kind, period)
        }
        for block in columns:
            literals = []
            for replicas in block:
                literal = self.integer(1)
                literals.append(literal)
                self.taken.append((replicas, literal))
                for key, count in replicas.items():
                    held[key].append(count * literal)
            self.model.add_linear_constraint(mathopt.fast_sum(literals) == 1.0)
        self.replicas = {key: mathopt.fast_sum(terms) for key, terms in held.items()}

    @property
    def counted(self) -> bool:
        """Whether shares are numbers of whole classes."""
        return self.instance.whole_classes and not self.scaled

    def add_shares(self) -> None:
        """A replica gives each class some of its time, and no more than all of it."""
        loads: dict[tuple[int, int], list[Expression]] = defaultdict(list)
        part_most = math.inf if self.unbounded else 1.0
        for kind, served in self.table.serves.items():
            for b in served:
                units = self.table.bundles[b].units
                whole = self.integer(units) if self.counted else None
                for period in self.table.periods:
                    if (kind, period) not in self.replicas or self.table.bundles[b].demand[period] <= 0:
                        continue
                    if (b, period) in self.undivided:
                        continue
                    variable = self.model.add_variable(lb=0.0, ub=part_most) if whole is None else whole
                    part = self.table.load(kind, b, period) / (1 if whole is None else units)
                    self.shares[kind, b, period] = variable
                    loads[kind, period].append(part * variable)
        for key, load in loads.items():
            self.model.add_linear_constraint(mathopt.fast_sum(load) <= self.replicas[key])
        if self.instance.whole_classes and self.scaled and not self.unbounded:
            self._add_takes()

    def _add_takes(self) -> None:
        of_bundle: dict[int, list[mathopt.Variable]] = defaultdict(list)
        for (kind, bundle, _), share in self.shares.items():
            if (kind, bundle) not in self.takes:
                self.takes[kind, bundle] = self.integer(1)
                of_bundle[bundle].append(self.takes[kind, bundle])
            self.model.add_linear_constraint(share <= self.takes[kind, bundle])
        for takes in of_bundle.values():
            self.model.add_linear_constraint(mathopt.fast_sum(takes) == 1.0)

    # -- rules -------------------------------------------------------------------------------------------------------

    def add_traffic(self) -> None:
        """Every class is served in full, in every period."""
        if "traffic" in self.without:
            return
        served: dict[tuple[int, int], list[mathopt.Variable]] = defaultdict(list)
        for (_, b, period), variable in self.shares.items():
            served[b, period].append(variable)
        for b, bundle in enumerate(self.table.bundles):
            there = [period for period in self.table.periods if bundle.demand[period] > 0]
            for period in there:
                if (b, period) in self.undivided:
                    self.add_undivided(b, period)
            there = [period for period in there if (b, period) not in self.undivided]
            # The variables of a whole class are the same in every period.
            for period in there[:1] if self.counted else there:
                whole = bundle.units if self.counted else self.scale
                row = mathopt.fast_sum(served[b, period]) == whole
                self.served[b, period] = self.model.add_linear_constraint(row)

    @cached_property
    def undivided(self) -> frozenset[tuple[int, int]]:
        """(bundle, period) of which the kinds serve nothing else then: whole replicas say all, without shares."""
        spot = self.instance.max_spot_share < 1 and "spot_share" not in self.without
        if self.instance.whole_classes or spot:
            return frozenset()
        divided: set[tuple[int, int]] = set()
        for served in self.table.serves.values():
            for period in self.table.periods:
                here = [b for b in served if self.table.bundles[b].demand[period] > 0]
                divided |= {(b, period) for b in here} if len(here) > 1 else set()
        every = {(b, period) for b in range(len(self.table.bundles)) for period in self.table.periods}
        return frozenset(every - divided)

    def add_undivided(self, b: int, period: int) -> None:
        """The replicas of all kinds together serve a class that is all that they serve."""
        parts = mathopt.fast_sum(
            1 / self.table.load(kind, b, period) * self.replicas[kind, period]
            for kind, served in self.table.serves.items()
            if b in served and (kind, period) in self.replicas
        )
        self.served[b, period] = self.model.add_linear_constraint(parts >= self.scale)

    def add_packing(self) -> None:
        """Replicas fit on the nodes of their site: no replica is torn apart, none shares a node that it spans."""
        for site, kinds in self.table.kinds_at.items():
            if self.is_its_node(kinds[0]):
                continue
            of = self.instance.kinds
            gpus = self.instance.sites[site].gpus_per_node
            sizes = [of[kind].gpus for kind in kinds if of[kind].nodes == 1]
            rows = slot_rows(sizes, gpus) if sizes else []
            ways = patterns(sizes, gpus) if rows is None and self.patterns_of is None else []
            for period in self.table.periods:
                here = [kind for kind in kinds if (kind, period) in self.replicas]
                small = [kind for kind in here if of[kind].nodes == 1]
                spans = {(kind, period): of[kind].nodes for kind in here if of[kind].nodes > 1}
                nodes = self.site_nodes(site, period)
                if self.patterns_of is not None:
                    self._add_contents(site, period, self.patterns_of(site), small, spans)
                elif rows is None:
                    self._add_patterns(site, period, ways, small, spans)
                elif not rows:
                    self._add_room(spans, nodes)
                else:
                    for row in rows:
                        used = {(k, period): row.weights[of[k].gpus] for k in small if of[k].gpus in row.weights}
                        whole = {key: row.per_node * span for key, span in spans.items()}
                        self._add_room(used | whole, row.per_node * nodes)

    def _add_room(self, used: Mapping[tuple[int, int], int], there: Expression) -> None:
        total = mathopt.fast_sum(weight * self.replicas[key] for key, weight in used.items())
        if self.costly_room:
            self.missing.append(self.model.add_variable(lb=0.0))
            there = there + self.missing[-1]
        self.room.append(Room(used, there, self.model.add_linear_constraint(total <= there)))

    def _add_patterns(
        self,
        site: int,
        period: int,
        ways: Sequence[dict[int, int]],
        small: Sequence[int],
        spans: Mapping[tuple[int, int], int],
    ) -> None:
        counts = self._count_contents(site, period, ways, spans)
        for size in sorted({self.instance.kinds[kind].gpus for kind in small}):
            slots = mathopt.fast_sum(way[size] * count for way, count in counts if size in way)
            self._add_room({(k, period): 1 for k in small if self.instance.kinds[k].gpus == size}, slots)

    def _count_contents(
        self, site: int, period: int, held: Sequence[dict[int, int]], spans: Mapping[tuple[int, int], int]
    ) -> list[tuple[dict[int, int], mathopt.Variable]]:
        """Count nodes by what they hold; there are no more than are paid for and not spanned."""
        most = UNLIMITED if self.unbounded else self.table.most_nodes(site)
        counts = [(content, self.integer(most)) for content in held]
        self.filled[site, period] = counts
        self._add_room(spans, self.site_nodes(site, period) - mathopt.fast_sum(count for _, count in counts))
        return counts

    def _add_contents(
        self,
        site: int,
        period: int,
        held: Sequence[dict[int, int]],
        small: Sequence[int],
        spans: Mapping[tuple[int, int], int],
    ) -> None:
        counts = self._count_contents(site, period, held, spans)
        for kind in small:
            there = mathopt.fast_sum(content[kind] * count for content, count in counts if kind in content)
            self.model.add_linear_constraint(there == self.replicas[kind, period])

    # -- sums --------------------------------------------------------------------------------------------------------

    def site_nodes(self, site: int, period: int) -> Expression:
        """Nodes of a site that are paid for in a period, however."""
        options = range(len(self.instance.sites[site].options))
        return mathopt.fast_sum(
            self.nodes[site, option, period] for option in options if (site, option, period) in self.nodes
        )

    @cached_property
    def step(self) -> Fraction:
        """Micro-dollars of which the cost of every fleet is a whole multiple."""
        return cost_step(self.cost_rows.values()) or Fraction(1)

    @cached_property
    def unit(self) -> float:
        """What a step counts in the objective."""
        largest = max((cost / self.step for cost in self.cost_rows.values()), default=Fraction(1))
        return 1.0 if largest <= LARGEST_COST else LARGEST_COST / float(largest)

    @property
    def micro_usd_per_unit(self) -> float:
        """What one unit of the objective is worth."""
        return float(self.step) / self.unit

    def cost(self) -> Expression:
        """Cost over the cycle, in the unit of the objective."""
        return mathopt.fast_sum(
            float(cost / self.step) * self.unit * variable for variable, cost in self.cost_rows.items() if cost
        )

    def missing_room(self) -> Expression:
        """Return what missing room costs, in the unit of the objective: far more than any node."""
        dearest = max((float(cost / self.step) * self.unit for cost in self.cost_rows.values()), default=1.0)
        return mathopt.fast_sum(MISSING * dearest * one for one in self.missing)

    def step_gap(self) -> float:
        """Return a gap of the objective that is less than one step."""
        return 0.999 * self.unit

    def bound_micro_usd(self, bound: float) -> Fraction:
        """Return the least cost that is possible above a bound on the objective: costs come in steps."""
        steps = bound / self.unit
        return max(-(-Fraction(steps * (1 - 1e-9) - 1e-6) // 1), 0) * self.step

    def hint(self, start: FleetAnswer) -> dict[mathopt.Variable, float]:
        """Return the values that a fleet gives the variables; what nodes hold is left for the solver to find."""
        found: dict[mathopt.Variable, float] = {
            variable: float(start.nodes.get(key, 0)) for key, variable in self.nodes.items()
        }
        periods = len(self.instance.demand)
        for (site, option, period), variable in self.starts.items():
            before = start.nodes.get((site, option, (period - 1) % periods), 0)
            found[variable] = float(max(start.nodes.get((site, option, period), 0) - before, 0))
        if self.columns is None:
            found |= {variable: float(start.replicas.get(key, 0)) for key, variable in self.replicas.items()}
        if not self.counted:
            for (kind, b, period), variable in self.shares.items():
                bundle = self.table.bundles[b]
                rate = sum(start.rates.get((kind, index, period), 0.0) for index in bundle.classes)
                found[variable] = min(rate / bundle.demand[period], 1.0)
        used = {self.table.label(kind) for kind, _ in start.replicas}
        return found | {variable: float(label in used) for label, variable in self.labels.items()}

    def chosen(self, values: Mapping[mathopt.Variable, float]) -> Counts:
        """Read the whole numbers of a solution."""
        return Counts(
            nodes={key: round(values[variable]) for key, variable in self.nodes.items() if round(values[variable])},
            replicas=self._read_replicas(values),
            shares=self._read_shares(values),
            filled={
                key: [(way, round(values[one])) for way, one in counts if round(values[one])]
                for key, counts in self.filled.items()
            },
        )

    def _read_replicas(self, values: Mapping[mathopt.Variable, float]) -> dict[tuple[int, int], int]:
        if self.columns is None:
            return {key: round(values[one]) for key, one in self.replicas.items() if round(values[one])}
        found: dict[tuple[int, int], int] = defaultdict(int)
        for replicas, literal in self.taken:
            if round(values[literal]):
                for key, count in replicas.items():
                    found[key] += count
        return dict(found)

    def _read_shares(self, values: Mapping[mathopt.Variable, float]) -> dict[tuple[int, int, int], float]:
        if self.takes:
            return {(kind, b, t): float(round(values[self.takes[kind, b]])) for kind, b, t in self.shares}
        return {key: values[one] for key, one in self.shares.items()}
