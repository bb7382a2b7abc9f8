"""Errors about catalog data: all problems at once, near matches for unknown names."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalogs.errors import CatalogError, DataFileError, UnknownNameError, near_matches

KNOWN = ("H100-SXM-80GB", "H100-PCIE-80GB", "H200-SXM-141GB", "L4-24GB")


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("h100-sxm-80gb", "H100-SXM-80GB"),
        ("H100-SMX-80GB", "H100-SXM-80GB"),
        ("H20-SXM-141GB", "H200-SXM-141GB"),
        ("l4", "L4-24GB"),  # too short to resemble, but part of the name
    ],
)
def test_a_misspelt_name_finds_the_one_that_was_meant(name: str, first: str) -> None:
    assert near_matches(name, KNOWN)[0] == first


def test_a_name_like_nothing_finds_nothing() -> None:
    assert near_matches("zzzzzzzzzzzzzzzzzzzzz", KNOWN) == []


def test_no_more_matches_than_asked_for_and_none_twice() -> None:
    found = near_matches("H100", ("H100-A", "H100-B", "H100-C", "H100-D"), limit=2)

    assert len(found) == len(set(found)) == 2


def test_an_unknown_name_is_reported_with_near_matches_and_a_hint() -> None:
    error = UnknownNameError("GPU", "H100-SXM", KNOWN, hint="`shardwise catalog gpus` lists them all.")

    assert "Unknown GPU 'H100-SXM'" in str(error)
    assert "Did you mean H100-SXM-80GB" in str(error)
    assert str(error).endswith("`shardwise catalog gpus` lists them all.")
    assert error.near[0] == "H100-SXM-80GB"


def test_an_unknown_name_without_likeness_offers_none() -> None:
    assert str(UnknownNameError("GPU", "zzz", ())) == "Unknown GPU 'zzz'."


def test_a_bad_file_is_reported_with_every_problem() -> None:
    error = DataFileError(Path("data/gpus.toml"), ["row 1: memory is missing", "row 2: price is 0"])

    assert str(error) == "data/gpus.toml:\n  - row 1: memory is missing\n  - row 2: price is 0"
    assert error.problems == ("row 1: memory is missing", "row 2: price is 0")


def test_a_very_bad_file_shows_twenty_problems_and_counts_the_rest() -> None:
    error = DataFileError("offers.csv", [f"row {row}: bad" for row in range(25)])

    assert "row 19: bad" in str(error)
    assert "row 20: bad" not in str(error)
    assert str(error).endswith("... and 5 more")
    assert len(error.problems) == 25


def test_both_are_catalog_errors_so_that_one_except_catches_them() -> None:
    assert issubclass(DataFileError, CatalogError)
    assert issubclass(UnknownNameError, CatalogError)
