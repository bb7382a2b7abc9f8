"""GPUs: the committed figures, which formats run where, and what the loader refuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from catalogs.errors import CatalogError, DataFileError, UnknownNameError
from catalogs.gpus import (
    GPUS_FILE,
    KV_CACHE_FORMATS,
    SOURCE_TOPICS,
    WEIGHT_FORMATS,
    Gpu,
    get_gpu,
    load_format_support,
    load_gpus,
)

GPUS = tuple(load_gpus().values())
each_gpu = pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)

REQUIRED = """
    A100-SXM-40GB A100-SXM-80GB A100-PCIE-40GB A100-PCIE-80GB H100-SXM-80GB H100-PCIE-80GB H100-NVL-94GB H200-SXM-141GB
    H200-NVL-141GB GH200-96GB B200-SXM-180GB B300-SXM-288GB GB200-NVL72 GB300-NVL72 L4-24GB L40-48GB L40S-48GB A10-24GB
    A10G-24GB A30-24GB A40-48GB RTXA6000-48GB RTX6000ADA-48GB RTXPRO6000-96GB RTX3090-24GB RTX4090-24GB RTX5090-32GB
    T4-16GB V100-SXM-16GB V100-SXM-32GB MI250-128GB MI300X-192GB MI325X-256GB MI355X-288GB GAUDI3-128GB
"""


# The committed data


def test_every_required_gpu_is_in_the_catalog() -> None:
    assert set(REQUIRED.split()) <= load_gpus().keys()


@each_gpu
def test_every_topic_has_a_source_with_a_year(gpu: Gpu) -> None:
    assert gpu.sources.keys() == SOURCE_TOPICS
    assert all(re.search(r"\b20[12]\d\b", source) for source in gpu.sources.values())


@each_gpu
def test_usable_memory_is_below_the_number_on_the_box_and_not_far_below(gpu: Gpu) -> None:
    # The name carries the nominal GB; vendors mean GiB by it on most cards and 10^9 bytes on the large HBM ones.
    nominal = {"GB200-NVL72": 186, "GB300-NVL72": 288}.get(gpu.name) or int(gpu.name.split("-")[-1].removesuffix("GB"))
    assert 0.90 * nominal < gpu.memory_gib < nominal


@each_gpu
def test_bandwidths_are_plausible(gpu: Gpu) -> None:
    assert 200 < gpu.memory_bandwidth_gb_per_s < 10_000
    assert gpu.pcie_gb_per_s in (16, 32, 64)
    assert gpu.pcie_gb_per_s <= gpu.scale_up_gb_per_s <= 1_000
    assert gpu.scale_up_gb_per_s < gpu.memory_bandwidth_gb_per_s


@each_gpu
def test_narrower_dtypes_are_never_slower(gpu: Gpu) -> None:
    floats = [gpu.dense_tflops[dtype] for dtype in ("fp32", "tf32", "fp16", "fp8", "fp4") if dtype in gpu.dense_tflops]
    assert floats == sorted(floats)
    if "bf16" in gpu.dense_tflops:
        assert gpu.dense_tflops["bf16"] == gpu.dense_tflops["fp16"]
    if "int8" in gpu.dense_tflops:
        assert gpu.dense_tflops["int8"] >= gpu.dense_tflops["fp16"]


@each_gpu
def test_no_rate_counts_sparsity(gpu: Gpu) -> None:
    # Halving a float's width doubles the dense rate; structured sparsity would show as another factor of two.
    if "fp8" in gpu.dense_tflops:
        assert gpu.dense_tflops["fp8"] <= 2.05 * gpu.dense_tflops["bf16"]
    if gpu.vendor == "nvidia" and "tf32" in gpu.dense_tflops:
        assert gpu.dense_tflops["fp16"] == pytest.approx(2 * gpu.dense_tflops["tf32"], rel=0.02)


@each_gpu
def test_formats_that_run_have_a_rate(gpu: Gpu) -> None:
    runnable = [weights for weights in WEIGHT_FORMATS if gpu.weight_support(weights) != "none"]
    assert "fp16" in runnable
    assert all(gpu.flops_per_second(gpu.compute_dtype(weights)) > 0 for weights in runnable)


@each_gpu
def test_links_match_their_kind(gpu: Gpu) -> None:
    sizes = {"pcie": {1}, "nvlink_bridge": {2, 4}, "nvlink": {8}, "nvswitch": {8, 16, 72}}
    assert gpu.scale_up_gpus in sizes.get(gpu.scale_up_kind, {4, 8})
    assert (gpu.scale_up_gb_per_s == gpu.pcie_gb_per_s) == (gpu.scale_up_kind == "pcie")


def test_the_support_table_has_no_row_without_a_gpu() -> None:
    assert load_format_support().keys() == {gpu.compute_capability for gpu in GPUS}


@pytest.mark.parametrize(
    ("name", "field", "expected"),
    [
        ("H100-SXM-80GB", "memory_gib", 79.2),  # engine logs say 79.19 to 79.22
        ("H200-SXM-141GB", "memory_gib", 139.8),
        ("RTX3090-24GB", "memory_gib", 23.58),
        ("B200-SXM-180GB", "memory_gib", 178.35),  # nvidia-smi 183,359 MiB is 179.06, of which 0.7 is kept back
        ("H100-SXM-80GB", "memory_bandwidth_gb_per_s", 3350),
        ("A100-SXM-80GB", "memory_bandwidth_gb_per_s", 2039),
        ("MI300X-192GB", "memory_bandwidth_gb_per_s", 5300),
        ("A100-SXM-80GB", "scale_up_gb_per_s", 300),  # NVLink 3: 600 GB/s over both directions
        ("H100-SXM-80GB", "scale_up_gb_per_s", 450),  # NVLink 4: 900 GB/s
        ("B200-SXM-180GB", "scale_up_gb_per_s", 900),  # NVLink 5: 1,800 GB/s
        ("MI300X-192GB", "scale_up_gb_per_s", 448),  # 7 links x 64 GB/s
        ("GAUDI3-128GB", "scale_up_gb_per_s", 525),  # 21 ports x 200 Gbit/s
        ("GB200-NVL72", "scale_up_gpus", 72),
        ("H200-NVL-141GB", "scale_up_gpus", 4),
        ("H100-NVL-94GB", "scale_up_gpus", 2),
        ("L40S-48GB", "scale_up_gpus", 1),
    ],
)
def test_known_facts(name: str, field: str, expected: float) -> None:
    assert getattr(get_gpu(name), field) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "dtype", "tflops"),
    [
        ("A100-SXM-80GB", "bf16", 312),
        ("H100-SXM-80GB", "bf16", 989.5),  # datasheet 1,979 with sparsity
        ("H100-SXM-80GB", "fp8", 1979),  # datasheet 3,958 with sparsity
        ("L40S-48GB", "bf16", 362.05),
        ("RTX4090-24GB", "bf16", 165.2),  # FP32 accumulation; 330 with FP16 accumulation
        ("RTX4090-24GB", "fp8", 330.3),
        ("V100-SXM-16GB", "fp16", 125),
        ("MI300X-192GB", "fp8", 2614.9),
        ("B200-SXM-180GB", "fp4", 9000),
    ],
)
def test_known_dense_rates(name: str, dtype: str, tflops: float) -> None:
    assert get_gpu(name).flops_per_second(dtype) == pytest.approx(tflops * 1e12)


# What runs where


@pytest.mark.parametrize(
    ("weights", "name", "support"),
    [
        ("bf16", "A100-SXM-80GB", "native"),
        ("bf16", "MI250-128GB", "native"),
        ("bf16", "T4-16GB", "none"),
        ("bf16", "V100-SXM-16GB", "none"),
        ("fp16", "V100-SXM-16GB", "native"),
        ("fp8", "H100-SXM-80GB", "native"),
        ("fp8", "L4-24GB", "native"),
        ("fp8", "MI300X-192GB", "native"),
        ("fp8", "GAUDI3-128GB", "native"),
        ("fp8", "A100-SXM-80GB", "emulated"),
        ("fp8", "T4-16GB", "emulated"),
        ("fp8", "V100-SXM-16GB", "none"),
        ("fp8", "MI250-128GB", "none"),
        ("int8", "T4-16GB", "native"),
        ("int8", "V100-SXM-16GB", "emulated"),
        ("int8", "B200-SXM-180GB", "emulated"),
        ("int4", "H100-SXM-80GB", "emulated"),
        ("int4", "V100-SXM-16GB", "emulated"),
        ("nvfp4", "B200-SXM-180GB", "native"),
        ("nvfp4", "H100-SXM-80GB", "emulated"),
        ("nvfp4", "RTX5090-32GB", "emulated"),
        ("nvfp4", "MI355X-288GB", "none"),
        ("mxfp4", "MI355X-288GB", "native"),
        ("mxfp4", "MI300X-192GB", "emulated"),
        ("mxfp4", "A100-SXM-80GB", "emulated"),
        ("mxfp4", "T4-16GB", "none"),
    ],
)
def test_weight_support(weights: str, name: str, support: str) -> None:
    assert get_gpu(name).weight_support(weights) == support


@pytest.mark.parametrize(
    ("weights", "name", "dtype"),
    [
        ("bf16", "H100-SXM-80GB", "bf16"),
        ("fp8", "H100-SXM-80GB", "fp8"),
        ("fp8", "A100-SXM-80GB", "bf16"),  # unpacked in the kernel
        ("fp8", "T4-16GB", "fp16"),  # unpacked, and no BF16 there
        ("int4", "B200-SXM-180GB", "bf16"),
        ("nvfp4", "B200-SXM-180GB", "fp4"),
        ("mxfp4", "B200-SXM-180GB", "fp8"),  # MXFP8 activations set the rate
        ("mxfp4", "MI355X-288GB", "fp4"),
    ],
)
def test_compute_dtype(weights: str, name: str, dtype: str) -> None:
    assert get_gpu(name).compute_dtype(weights) == dtype


@pytest.mark.parametrize(
    ("kv_cache", "name", "runs"),
    [
        ("bf16", "A100-SXM-80GB", True),
        ("bf16", "T4-16GB", False),
        ("fp16", "T4-16GB", True),
        ("fp8", "H100-SXM-80GB", True),
        ("fp8", "RTX3090-24GB", True),
        ("fp8", "T4-16GB", False),
        ("fp8", "MI300X-192GB", True),
        ("fp8", "MI250-128GB", False),
    ],
)
def test_kv_cache_support(kv_cache: str, name: str, runs: bool) -> None:
    assert get_gpu(name).kv_cache_support(kv_cache) is runs


def test_unknown_formats_are_refused_by_name() -> None:
    gpu = get_gpu("H100-SXM-80GB")
    with pytest.raises(UnknownNameError, match=r"Unknown weight format 'bf61'\. Did you mean bf16"):
        gpu.weight_support("bf61")
    with pytest.raises(UnknownNameError, match=re.escape(", ".join(KV_CACHE_FORMATS))):
        gpu.kv_cache_support("int3")
    with pytest.raises(CatalogError, match="has no fp4 rate; it has fp32, tf32"):
        gpu.flops_per_second("fp4")


def test_a_format_that_does_not_run_has_no_compute_dtype_and_the_error_says_why() -> None:
    with pytest.raises(CatalogError, match=r"bf16 weights do not run on T4-16GB: .*capability 8\.0"):
        get_gpu("T4-16GB").compute_dtype("bf16")


def test_a_gpu_of_unknown_capability_is_not_guessed_about() -> None:
    stranger = get_gpu("H100-SXM-80GB").model_copy(update={"compute_capability": "99.0"})
    with pytest.raises(CatalogError, match=r"Nothing is known about compute capability '99\.0'"):
        stranger.weight_support("bf16")


def test_derived_units() -> None:
    gpu = get_gpu("T4-16GB")
    assert gpu.memory_bytes == pytest.approx(14.56 * 1024**3)
    assert gpu.bandwidth_bytes_per_second == pytest.approx(300e9)


# Names


def test_names_are_found_whatever_their_case() -> None:
    assert get_gpu("h100-sxm-80gb") is get_gpu("H100-SXM-80GB")


def test_a_loose_name_is_not_guessed_but_near_matches_are_offered() -> None:
    with pytest.raises(UnknownNameError) as caught:
        get_gpu("h100")
    assert set(caught.value.near) == {"H100-SXM-80GB", "H100-PCIE-80GB", "H100-NVL-94GB"}


# The loader

SUPPORT = """
[[support]]
capabilities = ["8.0"]
native = ["fp16", "bf16"]
emulated = ["int4"]
kv_cache = ["bf16"]
source = "a page, 2026"
"""
GPU = """
[gpus.A100-X]
vendor = "nvidia"
family = "ampere"
compute_capability = "8.0"
memory_gib = 79.0
memory_bandwidth_gb_per_s = 2000
dense_tflops = { fp16 = 312, bf16 = 312 }
scale_up_kind = "nvswitch"
scale_up_gpus = 8
scale_up_gb_per_s = 300
pcie_gb_per_s = 32
[gpus.A100-X.sources]
memory = "log, 2026"
bandwidth = "sheet, 2020"
flops = "sheet, 2020"
scale_up = "sheet, 2020"
pcie = "sheet, 2020"
"""


def problems_of(tmp_path: Path, text: str) -> str:
    path = tmp_path / "gpus.toml"
    path.write_text(text)
    with pytest.raises(DataFileError) as caught:
        load_gpus(path)
    assert str(path) in str(caught.value)
    return "\n".join(caught.value.problems)


def test_a_small_file_loads_in_file_order(tmp_path: Path) -> None:
    path = tmp_path / "gpus.toml"
    path.write_text(SUPPORT + GPU + GPU.replace("A100-X", "A100-A"))
    assert list(load_gpus(path)) == ["A100-X", "A100-A"]
    assert list(load_format_support(path)) == ["8.0"]


def test_all_problems_are_reported_at_once_with_table_field_and_value(tmp_path: Path) -> None:
    broken = (
        GPU.replace("79.0", "-1")
        .replace('vendor = "nvidia"', 'vendor = "acme"\ncolour = "green"')
        .replace("scale_up_gpus = 8\n", "")
    )
    second = GPU.replace("A100-X", "A100-Y").replace('pcie = "sheet, 2020"', 'fan = "no date"')
    problems = problems_of(tmp_path, "[prices]\n" + SUPPORT + broken + second)
    assert "prices: unknown table" in problems
    assert "gpus.A100-X.memory_gib: Input should be greater than 0, got -1" in problems
    assert "gpus.A100-X.vendor" in problems
    assert "'acme'" in problems
    assert "gpus.A100-X.colour: Extra inputs are not permitted, got 'green'" in problems
    assert "gpus.A100-X.scale_up_gpus: Field required" in problems
    assert "gpus.A100-Y.sources.pcie: missing" in problems
    assert "gpus.A100-Y.sources.fan: unknown topic" in problems
    assert "gpus.A100-Y.sources.fan: has no date" in problems


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("memory_gib = 79.0", "memory_gib = nan", "gpus.A100-X.memory_gib: "),
        ("bf16 = 312", "bf61 = 312", "gpus.A100-X.dense_tflops.bf61: unknown dtype"),
        ("fp16 = 312, ", "", "gpus.A100-X.dense_tflops.fp16: missing, though weights compute in it"),
        ('"nvswitch"', '"pcie"', "gpus.A100-X.scale_up_gpus: must be 1"),
        ("scale_up_gpus = 8", "scale_up_gpus = 1", "gpus.A100-X.scale_up_gpus: must be 2 or more"),
        ('capability = "8.0"', 'capability = "8.7"', "no [[support]] row speaks for '8.7'"),
        ('"ampere"', '"ampere"\nname = "B"', "gpus.A100-X.name: the table's own name"),
        ('emulated = ["int4"]', 'emulated = ["bf16"]', "support[1]: bf16 cannot be both"),
        ('emulated = ["int4"]', 'emulated = ["int3"]', "support[1].emulated"),
        ('"a page, 2026"', '"a page"', "support[1].source: has no date"),
        ('"a page, 2026"', '"a page, 2026"\ncompute = { int4 = "fp8" }', "support[1].compute.int4: only a native"),
        (SUPPORT, SUPPORT + SUPPORT, "support[2].capabilities: '8.0' has a row already"),
        (SUPPORT, "support = 3\n", "support: must be an array of tables"),
        (GPU, "", "gpus: holds no GPU"),
        (GPU, "[gpus]\nA100 = 3\n", "gpus.A100: must be a table"),
        ("[[support]]", "[[support", "is not TOML"),
    ],
)
def test_each_kind_of_fault_is_named(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in SUPPORT + GPU
    assert problem in problems_of(tmp_path, (SUPPORT + GPU).replace(old, new, 1))


def test_gpus_that_are_no_table_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    assert "gpus: must be a table of tables" in problems_of(tmp_path, "gpus = 3\n" + SUPPORT)
    with pytest.raises(DataFileError, match="cannot be read"):
        load_gpus(tmp_path / "absent.toml")


def test_loading_is_cached() -> None:
    assert load_gpus() is load_gpus()
    assert load_gpus(GPUS_FILE) == load_gpus()


@pytest.mark.parametrize(
    ("gpu", "own", "held"),
    [
        ("T4-16GB", "bf16", "fp16"),  # no BF16: engines run the model in FP16
        ("T4-16GB", "fp16", "fp16"),
        ("H100-SXM-80GB", "bf16", "bf16"),
        ("V100-SXM-32GB", "fp8", "fp8"),  # refused elsewhere, not replaced
    ],
)
def test_a_gpu_without_bf16_keeps_the_cache_of_a_bf16_model_in_fp16(gpu: str, own: str, held: str) -> None:
    assert get_gpu(gpu).own_kv_cache(own) == held
