"""optimizer.kept: answers are kept by object and value, and for as long as the object is the same one."""

from __future__ import annotations

from optimizer.kept import kept


class Large:
    """Something that is equal to everything, and so must not be told apart by equality."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def test_answers_are_kept_by_object_and_by_value() -> None:
    asked: list[tuple[Large, int]] = []

    @kept(8)
    def answer(large: Large, value: int) -> int:
        asked.append((large, value))
        return value * 2

    one, other = Large(), Large()
    assert [answer(one, 1), answer(one, 1), answer(one, 2), answer(other, 1)] == [2, 2, 4, 2]
    assert [(large is one, value) for large, value in asked] == [(True, 1), (True, 2), (False, 1)]


def test_it_forgets_rather_than_grow() -> None:
    asked: list[int] = []

    @kept(2)
    def answer(large: Large, value: int) -> int:
        asked.append(value)
        return value

    large = Large()
    for value in (1, 2, 3, 1):
        answer(large, value)
    assert asked == [1, 2, 3, 1]
