"""What the targets call a GPU: dstack and SkyPilot in their resources, Kubernetes in node labels.

Sources: dstack: `gpuhunt.KNOWN_ACCELERATORS` of gpuhunt as dstack 0.22.5 installs it (2026-11). SkyPilot: its catalog's
names as this project's `catalogs/data/gpu_aliases.csv` holds them (source "skypilot"). nvidia.com/gpu.product: the name
that NVIDIA's driver reports, with "-" for spaces (GPU feature discovery; names as in `gpu_aliases.csv`, source
"runpod", whose machine types are those names). GKE: `gpu_aliases.csv`, source "gcp". AMD: the label of AMD's node
labeller for the MI300X, from its documentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from catalogs.errors import CatalogError
from catalogs.gpus import get_gpu


@dataclass(frozen=True, slots=True)
class GpuNames:
    """One GPU by its names; empty where a target has none that is known.

    Attributes:
        dstack_memory_gb: where dstack tells two GPUs of one name by memory.
        product: the value of the label nvidia.com/gpu.product or amd.com/gpu.product-name.
        gke: the value of the label cloud.google.com/gke-accelerator.
    """

    dstack: str
    skypilot: str
    dstack_memory_gb: int | None = None
    product: str = ""
    gke: str = ""


_KNOWN: Final = {
    "A10-24GB": GpuNames("A10", "A10", product="NVIDIA-A10"),
    "A100-PCIE-40GB": GpuNames("A100", "A100", 40, "NVIDIA-A100-PCIE-40GB"),
    "A100-PCIE-80GB": GpuNames("A100", "A100-80GB", 80, "NVIDIA-A100-80GB-PCIe"),
    "A100-SXM-40GB": GpuNames("A100", "A100", 40, "NVIDIA-A100-SXM4-40GB", "nvidia-tesla-a100"),
    "A100-SXM-80GB": GpuNames("A100", "A100-80GB", 80, "NVIDIA-A100-SXM4-80GB", "nvidia-a100-80gb"),
    "A10G-24GB": GpuNames("A10G", "A10G", product="NVIDIA-A10G"),
    "A30-24GB": GpuNames("A30", "A30", product="NVIDIA-A30"),
    "A40-48GB": GpuNames("A40", "A40", product="NVIDIA-A40"),
    "B200-SXM-180GB": GpuNames("B200", "B200", product="NVIDIA-B200", gke="nvidia-b200"),
    "B300-SXM-288GB": GpuNames("B300", "B300", product="NVIDIA-B300-SXM6-AC"),
    "GAUDI2-96GB": GpuNames("Gaudi2", "GAUDI2"),
    "GAUDI3-128GB": GpuNames("Gaudi3", "GAUDI3"),
    "GB200-NVL72": GpuNames("GB200", "GB200", product="NVIDIA-GB200", gke="nvidia-gb200"),
    "GB300-NVL72": GpuNames("GB300", "GB300", product="NVIDIA-GB300"),
    "GH200-96GB": GpuNames("GH200", "GH200", product="NVIDIA-GH200-480GB"),
    "H100-NVL-94GB": GpuNames("H100NVL", "H100-NVL", product="NVIDIA-H100-NVL"),
    "H100-PCIE-80GB": GpuNames("H100", "H100", product="NVIDIA-H100-PCIe"),
    "H100-SXM-80GB": GpuNames("H100", "H100", product="NVIDIA-H100-80GB-HBM3", gke="nvidia-h100-80gb"),
    "H200-NVL-141GB": GpuNames("H200NVL", "H200-NVL", product="NVIDIA-H200-NVL"),
    "H200-SXM-141GB": GpuNames("H200", "H200", product="NVIDIA-H200", gke="nvidia-h200-141gb"),
    "L4-24GB": GpuNames("L4", "L4", product="NVIDIA-L4", gke="nvidia-l4"),
    "L40-48GB": GpuNames("L40", "L40", product="NVIDIA-L40"),
    "L40S-48GB": GpuNames("L40S", "L40S", product="NVIDIA-L40S"),
    "MI250-128GB": GpuNames("MI250", "MI250"),
    "MI300X-192GB": GpuNames("MI300X", "MI300X", product="AMD_Instinct_MI300X_OAM"),
    "MI325X-256GB": GpuNames("MI325X", "MI325X"),
    "MI350X-288GB": GpuNames("MI350X", "MI350X"),
    "MI355X-288GB": GpuNames("MI355X", "MI355X"),
    "RTX3090-24GB": GpuNames("RTX3090", "RTX3090", product="NVIDIA-GeForce-RTX-3090"),
    "RTX3090TI-24GB": GpuNames("RTX3090Ti", "RTX3090Ti", product="NVIDIA-GeForce-RTX-3090-Ti"),
    "RTX4090-24GB": GpuNames("RTX4090", "RTX4090", product="NVIDIA-GeForce-RTX-4090"),
    "RTX5090-32GB": GpuNames("RTX5090", "RTX5090", product="NVIDIA-GeForce-RTX-5090"),
    "RTX6000-24GB": GpuNames("RTX6000", "RTX6000", product="Quadro-RTX-6000"),
    "RTX6000ADA-48GB": GpuNames("RTX6000Ada", "RTX6000-Ada", product="NVIDIA-RTX-6000-Ada-Generation"),
    "RTXA4000-16GB": GpuNames("A4000", "RTXA4000", product="NVIDIA-RTX-A4000"),
    "RTXA5000-24GB": GpuNames("A5000", "RTXA5000", product="NVIDIA-RTX-A5000"),
    "RTXA6000-48GB": GpuNames("A6000", "RTXA6000", product="NVIDIA-RTX-A6000"),
    "RTXPRO4500-32GB": GpuNames("RTXPRO4500", "RTXPRO4500"),
    "RTXPRO6000-96GB": GpuNames(
        "RTXPRO6000",
        "RTXPRO6000",
        product="NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
        gke="nvidia-rtx-pro-6000",
    ),
    "T4-16GB": GpuNames("T4", "T4", product="Tesla-T4", gke="nvidia-tesla-t4"),
    "T4G-16GB": GpuNames("T4g", "T4g"),
    "V100-PCIE-16GB": GpuNames("V100", "V100", 16, "Tesla-V100-PCIE-16GB"),
    "V100-PCIE-32GB": GpuNames("V100", "V100-32GB", 32, "Tesla-V100-PCIE-32GB"),
    "V100-SXM-16GB": GpuNames("V100", "V100", 16, "Tesla-V100-SXM2-16GB", "nvidia-tesla-v100"),
    "V100-SXM-32GB": GpuNames("V100", "V100-32GB", 32, "Tesla-V100-SXM2-32GB"),
}
# Where a cloud of SkyPilot's tells form factors apart in the name.
_SKYPILOT_ON: Final = {
    ("runpod", "H100-SXM-80GB"): "H100-SXM",
    ("runpod", "H200-SXM-141GB"): "H200-SXM",
    ("runpod", "A100-SXM-80GB"): "A100-80GB-SXM",
    ("lambda", "RTXA6000-48GB"): "A6000",
}


def gpu_names(gpu: str) -> GpuNames:
    """Return the names of a GPU of the catalog; of one that is not in the table, the name up to its memory."""
    bare = gpu.partition("-")[0]
    return _KNOWN.get(gpu) or GpuNames(bare, bare)


def skypilot_name(gpu: str, provider: str) -> str:
    """Return what SkyPilot calls a GPU on one provider."""
    return _SKYPILOT_ON.get((provider, gpu), gpu_names(gpu).skypilot)


def vendor(gpu: str) -> str:
    """Return "nvidia", "amd" or "intel"; the first for a GPU that the catalog does not know."""
    try:
        return get_gpu(gpu).vendor
    except CatalogError:
        return "nvidia"


def memory_gib(gpu: str) -> float:
    """Return the memory of one GPU; 0 for a GPU that the catalog does not know."""
    try:
        return get_gpu(gpu).memory_gib
    except CatalogError:
        return 0.0
