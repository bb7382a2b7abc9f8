"""Container images by engine, release and maker of the GPU.

Tags as published: vllm/vllm-openai and lmsysorg/sglang on Docker Hub, nvcr.io/nvidia/tensorrt-llm/release in NVIDIA's
catalog; vllm/vllm-openai-rocm is there from v0.17.1 on, SGLang's ROCm tags are of ROCm 7.2 from v0.5.12 on (seen in
public manifests up to v0.28 and v0.5.18; read 2026-11-30), for gfx942 and gfx950 (its rocm.Dockerfile, 0.5.17).
"""

from __future__ import annotations

from typing import Final

from catalogs.gpus import Gpu
from optimizer.engine_flags.versions import dotted
from optimizer.engines import why_not_on
from optimizer.errors import QuestionError

_VLLM_ROCM_SINCE: Final = (0, 17, 1)
_SGLANG_ROCM_SINCE: Final = (0, 5, 12)
_SGLANG_ROCM: Final = {"gfx942": "mi30x", "gfx950": "mi35x"}


def image_of(engine: str, release: tuple[int, ...], gpu: Gpu) -> str:
    """Return the image that the engine's makers publish for this maker of GPUs.

    Raises:
        QuestionError: there is none that is known of; --image names another.
    """
    tag = dotted(release)
    if lacking := why_not_on(engine, release, gpu):
        raise QuestionError(
            f"{lacking}; solve with --exclude-gpu {gpu.name}, or name an engine, release or image that runs there "
            "(--engine, --engine-version, --image)"
        )
    if gpu.vendor == "nvidia":
        images = {
            "vllm": f"vllm/vllm-openai:v{tag}",
            "sglang": f"lmsysorg/sglang:v{tag}",
            "trtllm": f"nvcr.io/nvidia/tensorrt-llm/release:{tag}",
        }
        return images[engine]
    if gpu.vendor == "amd" and engine == "vllm" and release >= _VLLM_ROCM_SINCE:
        return f"vllm/vllm-openai-rocm:v{tag}"
    family = _SGLANG_ROCM.get(gpu.compute_capability)
    if family and engine == "sglang" and release >= _SGLANG_ROCM_SINCE:
        return f"lmsysorg/sglang:v{tag}-rocm720-{family}"
    raise QuestionError(f"no published image of {engine} {tag} for {gpu.name} is known; name one with --image")
