"""Whole-node packing: counting where it is exact, patterns where it is not."""

from __future__ import annotations

import itertools

import pytest

from optimizer.errors import QuestionError
from optimizer.programs.fleet_instance import FleetInstance, Kind, Option, Site
from optimizer.programs.fleet_packing import pack, patterns, slot_rows


def fits_by_trying(counts: dict[int, int], gpus: int, nodes: int) -> bool:
    """Whether replicas fit, by trying to put each on each node, the largest first."""
    items = sorted((size for size, count in counts.items() for _ in range(count)), reverse=True)

    def place(position: int, room: tuple[int, ...]) -> bool:
        if position == len(items):
            return True
        return any(
            place(position + 1, tuple(sorted((*room[:node], left - items[position], *room[node + 1 :]))))
            for node, left in enumerate(room)
            if left >= items[position] and left not in room[:node]
        )

    return place(0, (gpus,) * nodes)


@pytest.mark.parametrize(
    ("sizes", "gpus"), [((1, 2, 4), 8), ((2, 4), 7), ((3, 6), 8), ((1, 3), 8), ((2, 6), 9), ((1, 4, 8), 8), ((5,), 8)]
)
def test_counting_slots_says_exactly_what_fits_where_sizes_divide_each_other(sizes, gpus):
    rows = slot_rows(sizes, gpus)
    assert rows is not None
    for nodes in (1, 2):
        for counts in itertools.product(range(6), repeat=len(sizes)):
            held = dict(zip(sizes, counts, strict=True))
            counted = all(
                sum(row.weights.get(size, 0) * count for size, count in held.items()) <= row.per_node * nodes
                for row in rows
            )
            assert counted == fits_by_trying(held, gpus, nodes), (held, nodes)


def test_one_row_is_enough_where_every_size_divides_the_node():
    (row,) = slot_rows((1, 2, 4, 8), 8) or ()
    assert (dict(row.weights), row.per_node) == ({1: 1, 2: 2, 4: 4, 8: 8}, 8)


def test_counting_is_refused_where_sizes_do_not_divide_each_other():
    assert slot_rows((2, 3), 8) is None


@pytest.mark.parametrize(("sizes", "gpus"), [((2, 3), 8), ((3, 5), 8), ((2, 3, 5), 10), ((3, 4), 7)])
def test_patterns_are_the_full_nodes_and_say_exactly_what_fits(sizes, gpus):
    ways = patterns(sizes, gpus)
    for way in ways:
        left = gpus - sum(size * count for size, count in way.items())
        assert 0 <= left < min(sizes)
    for counts in itertools.product(range(5), repeat=len(sizes)):
        held = dict(zip(sizes, counts, strict=True))
        covered = any(
            all(sum(way.get(size, 0) for way in two) >= count for size, count in held.items())
            for two in itertools.combinations_with_replacement(ways, 2)
        )
        assert covered == fits_by_trying(held, gpus, 2), held


def test_too_many_patterns_are_an_error_for_people():
    with pytest.raises(QuestionError, match=r"replicas of 2, 3, 5, 7 GPUs fill a node of 72 GPUs in more than 50 ways"):
        patterns((2, 3, 5, 7), 72, most=50)


def test_packing_puts_spanning_replicas_on_nodes_of_their_own_and_names_empty_nodes():
    site = Site(8, (Option(1),))
    kinds = (Kind(0, 16, (1.0,), nodes=2), Kind(0, 4, (1.0,)), Kind(0, 2, (1.0,)))
    instance = FleetInstance((site,), kinds, ((1.0,),))
    units = pack(instance, 0, 5, {0: 1, 1: 3, 2: 1})
    held = {tuple(sorted(unit.replicas.items())): (unit.units, unit.span) for unit in units}
    assert held == {((0, 1),): (1, 2), ((1, 2),): (1, 1), ((1, 1), (2, 1)): (1, 1), (): (1, 1)}
