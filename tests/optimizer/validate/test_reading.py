"""optimizer.validate: what reports call engines, GPUs, formats and models."""

from __future__ import annotations

import pytest

from optimizer.validate.engines import read_engine
from optimizer.validate.formats import read_kv, read_precision
from optimizer.validate.gpus import read_cards
from optimizer.validate.models import UnknownModel, resolve_model


@pytest.mark.parametrize(
    ("text", "day", "spec"),
    [
        ("vLLM 0.9/0.10 V1", "2025-07-22", "vllm@0.9"),
        ("vLLM V0 0.4/0.5", "2024-06-28", "vllm@0.4"),
        ("vLLM V0", "2025-04-12", "vllm@0.7"),
        ("vLLM 0.6.x V0", "2024-12-02", "vllm@0.6"),
        ("vLLM 0.21+", "2026-06-10", "vllm@0.21"),
        ("vLLM 0.28.1rc1 ROCm", "2026-09-03", "vllm@0.28.1"),
        ("vLLM", "2026-08-16", "vllm@0.27"),
        ("vLLM main", "2024-02", "vllm@0.3"),
        ("vLLM", "", "vllm"),
        ("SGLang 0.4.6.post5", "2025-06-05", "sglang@0.4.6"),
        ("SGLang", "2025-06-05", "sglang@0.4"),
        ("SGLang/vLLM", "2025-08-01", "sglang@0.4"),
        ("TensorRT-LLM 0.6.1", "2024-03-07", "trtllm@0.6.1"),
        ("llama.cpp (Ollama 0.30)", "2026-06-04", "other"),
        ("", "", "other"),
    ],
)
def test_engines(text: str, day: str, spec: str) -> None:
    """The version said, else that of the day; the first engine where two are named."""
    assert read_engine(text, day).spec == spec


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("H100 80GB", ["H100-SXM-80GB"]),
        ("8xH100", ["H100-SXM-80GB"]),
        ("NVIDIA H100 80GB HBM3", ["H100-SXM-80GB"]),
        ("A100 40GB", ["A100-SXM-40GB"]),
        ("A100 80GB PCIe", ["A100-PCIE-80GB"]),
        ("A10 24GB", ["A10-24GB"]),
        ("A6000 48GB", ["RTXA6000-48GB"]),
        ("3090", ["RTX3090-24GB"]),
        ("RTX PRO 4500 Blackwell 32GB", ["RTXPRO4500-32GB"]),
        ("RTX 5090 32GB (SM120)", ["RTX5090-32GB"]),
        ("MI300X 192GB vs MI350X", ["MI300X-192GB", "MI350X-288GB"]),
        ("A100/3090 (SM80/86)", ["A100-SXM-80GB", "RTX3090-24GB"]),
        ("SM75-SM90 (A100, H100, L40S)", ["SM75", "SM90"]),
        ("P100 16GB (SM60)", ["P100-16GB"]),
        ("H20 96GB", ["H20-96GB"]),
        ("H100 80GB + InfiniBand", ["H100-SXM-80GB"]),
        ("RTX 3090 + RTX 4060 Ti", ["RTX3090-24GB", "RTX4060TI-16GB"]),
        ("A100 80GB MIG 3g.40gb", ["A100-SXM-80GB MIG 3g.40gb"]),
        ("unknown single GPU", []),
        ("H100 24GB", []),
        ("", []),
    ],
)
def test_gpus(text: str, names: list[str]) -> None:
    """A spelling names a GPU of its memory, or none."""
    assert [card.name for card in read_cards(text)] == names


def test_a_mig_slice_has_its_own_memory() -> None:
    """3g.40gb of an A100 is 40 GiB less what the driver takes, with no link to another slice."""
    (card,) = read_cards("A100 80GB MIG 3g.40gb")
    assert card.memory_bytes == pytest.approx(39.2 * 2**30)
    assert not card.linked


@pytest.mark.parametrize(
    ("text", "weights", "block", "online", "group"),
    [
        ("FP8 block128", "fp8", True, False, 0),
        ("FP8 (online)", "fp8", False, True, 0),
        ("INT4 AWQ", "int4", False, False, 0),
        ("AWQ g128", "int4", False, False, 128),
        ("INT4 W4A16", "int4", False, False, 0),
        ("MXFP4 (Triton)", "mxfp4", False, False, 0),
        ("NVFP4 -> Marlin W4A16", "nvfp4", False, False, 0),
        ("FP8 (Marlin W8A16)", "fp8", False, False, 0),
        ("bf16 (int8 requested at load)", "bf16", False, False, 0),
        ("float32", "fp32", False, False, 0),
        ("", None, False, False, 0),
    ],
)
def test_weight_formats(text: str, weights: str | None, block: bool, online: bool, group: int) -> None:
    """The first format named is the one held."""
    found = read_precision(text)
    assert (found.weights, found.block, found.online, found.group) == (weights, block, online, group)


@pytest.mark.parametrize(("text", "dtype"), [("fp8_e5m2", "fp8"), ("f16", "fp16"), ("float32", "fp32"), ("auto", None)])
def test_kv_dtypes(text: str, dtype: str | None) -> None:
    """vLLM's and llama.cpp's words."""
    assert read_kv(text) == dtype


@pytest.mark.parametrize(
    ("name", "weights_said", "model", "weights"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "", "meta-llama/Llama-3.1-8B-Instruct", "bf16"),
        ("unsloth/Llama-3.3-70B-Instruct-bnb-4bit", "", "meta-llama/Llama-3.3-70B-Instruct", "int4"),
        ("RedHatAI/gemma-3-27b-it-FP8-dynamic", "", "google/gemma-3-27b-it", "fp8"),
        ("RedHatAI/DeepSeek-R1-0528-quantized.w4a16", "INT4 W4A16", "deepseek-ai/DeepSeek-R1-0528", "int4"),
        ("DeepSeek-R1 AWQ (W4A16, moe_wna16 marlin)", "INT4 AWQ", "deepseek-ai/DeepSeek-R1", "int4"),
        ("MiniMaxAI/MiniMax-M2.5 (NVFP4)", "NVFP4", "nvidia/MiniMax-M2.5-NVFP4", "nvfp4"),
        ("Qwen/Qwen3.8-27B-FP8", "FP8", "Qwen/Qwen3.5-27B", "fp8"),
        ("Qwen/Qwen1.5-14B-Chat-GPTQ-Int4", "GPTQ g128", "Qwen/Qwen1.5-14B", "int4"),
        ("LLaMA-33B (52 heads)", "", "huggyllama/llama-30b", "bf16"),
        ("cognitivecomputations/WizardLM-33B-V1.0-Uncensored", "", "huggyllama/llama-30b", "bf16"),
        ("OpenGVLab/InternVL3-78B-AWQ", "AWQ g128", "OpenGVLab/InternVL2_5-78B", "int4"),
        ("llama 3.1 8B", "", "meta-llama/Llama-3.1-8B", "bf16"),
    ],
)
def test_models(name: str, weights_said: str, model: str, weights: str) -> None:
    """A quantized upload is its base in that format; a published twin goes first."""
    spec = resolve_model(name, read_precision(weights_said))
    assert (spec.name, spec.checkpoint.weights) == (model, weights)


@pytest.mark.parametrize("name", ["", "any", "nobody/Nothing-7B", "57 runs, 35 models", "../../etc/passwd", "x" * 5000])
def test_unknown_models_are_said(name: str) -> None:
    """A name that nothing answers to is refused by name, and opens no file."""
    with pytest.raises(UnknownModel):
        resolve_model(name, read_precision(""))


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("Qwen/Qwen1.5-72B", 72.3),
        ("Qwen/Qwen1.5-32B", 32.5),
        ("Qwen/Qwen2-72B", 72.7),
        ("openai-community/gpt2-xl", 1.56),
        ("facebook/opt-125m", 0.124),
        ("tiiuae/falcon-40b", 41.3),
        ("01-ai/Yi-34B", 34.4),
        ("allenai/Olmo-3-1025-7B", 7.3),
        ("huggyllama/llama-65b", 65.3),
        ("mistralai/Mistral-Nemo-Instruct-2407", 12.2),
        ("databricks/dbrx-instruct", 131.6),
        ("google/gemma-7b", 8.54),
        ("bigscience/bloom", 176.2),
    ],
)
def test_restated_shapes_add_up(name: str, billions: float) -> None:
    """Parameters counted from the shapes are those that the models are known by, within 1.5%."""
    assert resolve_model(name, read_precision("")).total_parameters / 1e9 == pytest.approx(billions, rel=0.015)
