"""A running vLLM server's command read back to a layout."""

from __future__ import annotations

import re
from typing import Final

from catalogs.models import ModelSpec, load_model
from optimizer.engines import engine_version
from optimizer.errors import QuestionError
from optimizer.export.vllm_flags import Read, read_arguments
from optimizer.export.vllm_words import read_words
from optimizer.memory.eras import default_fraction
from optimizer.plan import AnswerPart

_DTYPES: Final = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
}
# --quantization -> weight format (vllm/model_executor/layers/quantization, 0.33); others follow the checkpoint.
_QUANTIZED: Final = {
    **dict.fromkeys(("fp8", "fbgemm_fp8", "modelopt", "fp8_per_tensor", "fp8_per_block", "fp8_per_channel"), "fp8"),
    **dict.fromkeys(("awq", "auto_awq", "awq_marlin", "gptq", "auto_gptq", "gptq_marlin", "moe_wna16"), "int4"),
    **dict.fromkeys(("experts_int8", "int8_per_channel_weight_only"), "int8"),
    **dict.fromkeys(("modelopt_fp4", "nvfp4_per_token"), "nvfp4"),
    **dict.fromkeys(("mxfp4", "gpt_oss_mxfp4"), "mxfp4"),
}
_NAMED: Final = (
    (re.compile(r"nvfp4|[-_.]fp4\b", re.IGNORECASE), "nvfp4"),
    (re.compile(r"mxfp4", re.IGNORECASE), "mxfp4"),
    (re.compile(r"[-_.](awq|gptq|int4|w4a16|4bit)", re.IGNORECASE), "int4"),
    (re.compile(r"[-_.](int8|w8a8|8bit)", re.IGNORECASE), "int8"),
    (re.compile(r"[-_.]fp8", re.IGNORECASE), "fp8"),
    (re.compile(r"[-_.]bf16", re.IGNORECASE), "bf16"),
)
_VISIBLE: Final = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


class ServedLayout(AnswerPart):
    """The layout that a server's command asks for; null is what it leaves to the engine.

    Attributes:
        engine_version: by the tag of its image; empty where it says none.
        model: what it loads; catalog_model: the model that figures are taken from.
        weights, weights_from: the weight format, and where that was read: "--quantization", "--dtype", "the model's
            name" or "the checkpoint".
        tp, pp, ep, attention_dp: the split of one replica (see optimizer.split.Split).
        replicas: copies that the command itself starts: data parallel ranks of a model without experts.
        gpus: of all of them.
        max_num_seqs, max_num_batched_tokens: of one data-parallel rank, as vLLM counts them.
        environment: variables that the command sets; values that look like secrets are left out.
        other_flags: flags that say nothing of the layout, as typed.
        notes: what was not read, or is not counted.
        image: container image; empty where none is named.
        served_name: what requests call the model.
        expert_parallel: experts are divided over GPUs as whole experts.
        max_model_len: longest request, in tokens.
        gpu_memory_utilization: share of memory that the engine takes.
        trust_remote_code: the engine may run code of the checkpoint.
    """

    engine: str = "vllm"
    engine_version: str
    image: str
    model: str
    served_name: str
    catalog_model: str
    weights: str
    weights_from: str
    kv_cache: str
    tp: int
    pp: int
    ep: int
    attention_dp: int
    replicas: int
    gpus: int
    nodes: int
    expert_parallel: bool
    max_model_len: int | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    gpu_memory_utilization: float | None
    trust_remote_code: bool
    environment: dict[str, str]
    other_flags: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def gpus_per_replica(self) -> int:
        """GPUs of one replica."""
        return self.tp * self.pp * self.attention_dp

    @property
    def engine_name(self) -> str:
        """The engine as a scenario names it."""
        return f"{self.engine}@{self.engine_version}" if self.engine_version else self.engine

    def memory_fraction(self, gpu_memory_bytes: float) -> float:
        """Return the memory fraction that it runs with: its own, or the release's default."""
        return self.gpu_memory_utilization or default_fraction(self.engine_name, gpu_memory_bytes, self.gpus)


def read_vllm(text: str, catalog_model: str | None = None) -> ServedLayout:
    """Read the command of a vLLM server: as typed, in a container, or the script that holds it. It is never run.

    Args:
        text: the command.
        catalog_model: the model that it is, where the catalog knows it by another name.

    Raises:
        QuestionError: it is no such command, or says something that vLLM would refuse.
        UnknownNameError: the model is not in the catalog.
    """
    words = read_words(text)
    read = read_arguments(words.arguments, positional_model=words.positional_model)
    if read.model is None:
        raise QuestionError(
            "the command names no model; expected `vllm serve MODEL` or --model MODEL"
            + (f" (--config {read.config} is not followed)" if read.config else "")
        )
    known = catalog_model or read.model
    model = load_model(known)
    weights, weights_from = _weights(read, model, known)
    experts = model.is_moe
    attention_dp = read.data_parallel if experts else 1
    replicas = 1 if experts else read.data_parallel
    stage = read.tp * attention_dp
    return ServedLayout(
        engine_version=words.version,
        image=words.image,
        model=read.model,
        served_name=read.served_name or read.model,
        catalog_model=known,
        weights=weights,
        weights_from=weights_from,
        kv_cache=_kv_cache(read, model),
        tp=read.tp,
        pp=read.pp,
        ep=stage if read.expert_parallel and experts else 1,
        attention_dp=attention_dp,
        replicas=replicas,
        gpus=stage * read.pp * replicas,
        nodes=_nodes(read),
        expert_parallel=read.expert_parallel,
        max_model_len=read.max_model_len,
        max_num_seqs=read.max_num_seqs,
        max_num_batched_tokens=read.max_num_batched_tokens,
        gpu_memory_utilization=read.gpu_memory_utilization,
        trust_remote_code=read.trust_remote_code,
        environment={name: _shown(name, value) for name, value in words.environment.items()},
        other_flags=tuple(read.others),
        notes=tuple(_notes(read, model, words.environment, words.left_out, stage * read.pp * replicas)),
    )


def _weights(read: Read, model: ModelSpec, name: str) -> tuple[str, str]:
    quantization = (read.quantization or "").lower()
    if quantization in _QUANTIZED:
        return _QUANTIZED[quantization], "--quantization"
    checkpoint = str(model.checkpoint.weights)
    if checkpoint not in _DTYPES.values():
        return checkpoint, "the checkpoint"
    if read.model is not None and read.model != name:
        for pattern, found in _NAMED:
            if pattern.search(read.model):
                return found, "the model's name"
    dtype = _DTYPES.get((read.dtype or "").lower())
    return (dtype, "--dtype") if dtype else (checkpoint, "the checkpoint")


def _kv_cache(read: Read, model: ModelSpec) -> str:
    asked = (read.kv_cache_dtype or "auto").lower()
    if asked.startswith("fp8"):
        return "fp8"
    own = str(model.checkpoint.own_kv_cache)
    return _DTYPES.get(asked, _DTYPES.get((read.dtype or "").lower(), own) if own != "fp8" else own)


def _nodes(read: Read) -> int:
    if read.nnodes > 1:
        return read.nnodes
    if read.data_parallel_local and read.data_parallel % read.data_parallel_local == 0:
        return max(1, read.data_parallel // read.data_parallel_local)
    return 1


def _shown(name: str, value: str) -> str:
    return "(not shown)" if re.search(r"TOKEN|KEY|SECRET|PASSWORD", name, re.IGNORECASE) else value


def _notes(
    read: Read, model: ModelSpec, environment: dict[str, str], left_out: tuple[str, ...], gpus: int
) -> list[str]:
    notes = []
    if read.config:
        notes.append(f"--config {read.config} is not followed: what it says is not in the layout")
    if read.decode_context_parallel > 1 or read.prefill_context_parallel > 1:
        notes.append("context parallelism is not counted: memory and speed are those without it")
    quantization = (read.quantization or "").lower()
    if quantization and quantization not in _QUANTIZED:
        notes.append(f"--quantization {read.quantization}: weights are taken to be in the checkpoint's format")
    kv_cache = (read.kv_cache_dtype or "auto").lower()
    if kv_cache != "auto" and kv_cache not in _DTYPES and not kv_cache.startswith("fp8"):
        notes.append(f"--kv-cache-dtype {read.kv_cache_dtype}: is not counted; the cache is taken as by default")
    if read.expert_parallel and not model.is_moe:
        notes.append("--enable-expert-parallel does nothing: the model has no experts")
    if any(flag.startswith(("--speculative", "--spec-")) for flag in read.others):
        notes.append("speculative decoding is not counted")
    for name in _VISIBLE:
        visible = [one for one in environment.get(name, "").split(",") if one.strip()]
        if visible and len(visible) < gpus and _nodes(read) == 1:
            notes.append(f"{name} shows {len(visible)} GPUs and the layout takes {gpus}: it would not start")
    if left_out:
        notes.append(f"not read: {' '.join(left_out)[:200]}")
    return notes


def release_of(layout: ServedLayout) -> str:
    """Return the engine as a scenario names it, where its release is one that is known of.

    Raises:
        QuestionError: it is no release.
    """
    try:
        engine_version(layout.engine_name)
    except ValueError as error:
        raise QuestionError(str(error)) from None
    return layout.engine_name
