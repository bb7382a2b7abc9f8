"""Providers: the committed table and the node sizes it implies."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalogs.errors import DataFileError, UnknownNameError
from catalogs.gpus import load_gpus
from catalogs.nodes import load_nodes
from catalogs.providers import get_provider, load_providers, read_providers


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aws", "hyperscaler"),
        ("azure", "hyperscaler"),
        ("gcp", "hyperscaler"),
        ("oci", "hyperscaler"),
        ("runpod", "gpu-cloud"),  # its secure cloud; community rows carry "marketplace" themselves
        ("spheron", "gpu-cloud"),  # a reseller of named data centres
        ("vast", "marketplace"),
        ("tensordock", "marketplace"),
        ("salad", "marketplace"),
        ("own", "own"),
    ],
)
def test_kinds(name: str, kind: str) -> None:
    assert get_provider(name).kind == kind


def test_counts_and_machines_name_known_gpus() -> None:
    for provider in load_providers().values():
        named = (set(provider.counts) - {"default"}) | set(provider.machines)
        assert named <= set(load_gpus()), provider.name


def test_machines_agree_with_the_node_table() -> None:
    for provider in load_providers().values():
        for gpu, machines in provider.machines.items():
            for machine, gpus in machines.items():
                node = load_nodes().get((provider.name, machine))
                assert node is None or (node.gpu, node.gpus_per_node) == (gpu, gpus), machine


def test_every_provider_says_where_it_was_read_and_when() -> None:
    for provider in load_providers().values():
        assert "20" in provider.source or provider.kind == "own", provider.name


def test_names_and_aliases_are_found_in_any_case() -> None:
    assert get_provider("DataCrunch").name == "verda"
    assert get_provider("LAMBDA").name == "lambda"


def test_unknown_name_offers_near_matches() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean hyperstack"):
        get_provider("hyperstak")


@pytest.mark.parametrize(
    ("provider", "gpu", "counts"),
    [
        ("coreweave", "H100-SXM-80GB", (8,)),  # the provider's own default
        ("scaleway", "H100-PCIE-80GB", (1, 2)),  # stated for the GPU
        ("hotaisle", "MI300X-192GB", (1, 2, 4, 8)),  # a board, nothing stated
        ("gmicloud", "GB200-NVL72", (4,)),  # a tray, nothing stated
        ("vultr", "A40-48GB", (1,)),  # a card, nothing stated
    ],
)
def test_node_sizes(provider: str, gpu: str, counts: tuple[int, ...]) -> None:
    assert get_provider(provider).counts_of(gpu) == counts


def test_every_bad_entry_is_named(tmp_path: Path) -> None:
    path = tmp_path / "providers.toml"
    path.write_text(
        '[a]\ndisplay_name = "A"\nkind = "shop"\nsource = "x"\n'
        '[b]\ndisplay_name = "B"\nkind = "gpu-cloud"\nsource = "x"\ncolour = "red"\naliases = ["c"]\n'
        '[c]\ndisplay_name = "C"\nkind = "gpu-cloud"\nsource = "x"\n'
        '[d]\ndisplay_name = "D"\nkind = "gpu-cloud"\nsource = "x"\naliases = ["C"]\n'
    )
    with pytest.raises(DataFileError) as error:
        read_providers(path)
    problems = "\n".join(error.value.problems)
    assert "a.kind" in problems
    assert "b.colour" in problems
    assert "'c' names more than one provider" in problems


def test_a_file_that_is_not_toml_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "providers.toml"
    path.write_text("[a")
    with pytest.raises(DataFileError, match="cannot be read"):
        read_providers(path)
