"""Container images by engine, release and maker of the GPU.

Tags as published: vllm/vllm-openai and lmsysorg/sglang on Docker Hub, nvcr.io/nvidia/tensorrt-llm/release in NVIDIA's
catalog; vllm/vllm-openai-rocm is there from v0.17.1 on, SGLang's ROCm tags are of ROCm 7.2 from v0.5.12 on (seen in
public manifests up to v0.28 and v0.5.18; read 2026-11-30).
"""

from __future__ import annotations

from typing import Final

from catalogs.gpus import Gpu
from optimizer.engine_flags.versions import dotted
from optimizer.errors import QuestionError

_VLLM_ROCM_SINCE: Final = (0, 17, 1)
_SGLANG_ROCM_SINCE: Final = (0, 5, 12)


def image_of(engine: str, release: tuple[int, ...], gpu: Gpu) -> str:
    """Return the image that the engine's makers publish for this maker of GPUs.

    Raises:
        QuestionError: there is none that is known of; --image names another.
    """
    tag = dotted(release)
    if gpu.vendor == "nvidia":
        images = {
            "vllm": f"vllm/vllm-openai:v{tag}",
            "sglang": f"lmsysorg/sglang:v{tag}",
            "trtllm": f"nvcr.io/nvidia/tensorrt-llm/release:{tag}",
        }
        return images[engine]
    if gpu.vendor == "amd" and engine == "vllm" and release >= _VLLM_ROCM_SINCE:
        return f"vllm/vllm-openai-rocm:v{tag}"
    if gpu.vendor == "amd" and engine == "sglang" and release >= _SGLANG_ROCM_SINCE:
        family = "mi35x" if gpu.name.startswith("MI35") else "mi30x"
        return f"lmsysorg/sglang:v{tag}-rocm720-{family}"
    if engine == "trtllm":
        raise QuestionError(f"TensorRT-LLM runs on NVIDIA GPUs only, not on {gpu.name}; use --engine vllm or sglang")
    raise QuestionError(f"no published image of {engine} {tag} for {gpu.name} is known; name one with --image")
