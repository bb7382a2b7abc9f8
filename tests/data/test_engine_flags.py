"""Flags are read from an engine's source, whichever way it declares them."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.data.engine_flags import Known, as_toml, read_flags

VLLM = """
Kind = Literal["auto", "bfloat16"]
class ParallelConfig:
    tensor_parallel_size: int = 1
    nnodes: int = Field(default=1)
class ModelConfig:
    dtype: Kind | torch.dtype = "auto"
    max_model_len: Optional[int] = None
    trust_remote_code: bool = False
class FrontendArgs:
    host: str | None = None
    unrelated: int = 1
def add(parser):
    parallel_kwargs = get_kwargs(ParallelConfig)
    model_kwargs = get_kwargs(ModelConfig)
    parser.add_argument("--tensor-parallel-size", "-tp", **parallel_kwargs["tensor_parallel_size"])
    parser.add_argument("--nnodes", "-n", **{**parallel_kwargs["nnodes"], "default": None})
    parser.add_argument("--dtype", **model_kwargs["dtype"])
    parser.add_argument("--max-model-len", **model_kwargs["max_model_len"])
    parser.add_argument("--trust-remote-code", **model_kwargs["trust_remote_code"])
    parser.add_argument("--headless", action="store_true")
    parser.add_argument("--data-parallel-address", type=str)
"""
SGLANG = """
CHOICES = ["auto", "fp8_e4m3"]
class Parallel:
    tp_size: A[int, Arg(help="x", aliases=["--tensor-parallel-size"])] = 1
    kv_cache_dtype: A[str, Arg(choices=CHOICES)] = "auto"
    mem_fraction_static: A[Optional[float], "a share"] = None
    enable_dp_attention: A[bool, Arg(no_cli=True)] = False
    trust_remote_code: A[bool, "help"] = False
"""
TRTLLM = """
@click.command("serve")
@click.option("--tensor_parallel_size", "--tp_size", type=int, default=1)
@click.option("--trust_remote_code", is_flag=True)
@click.option("--config", "--extra_llm_api_options", "extra_llm_api_options", type=str)
def serve(): ...
@click.option("--port", type=str)
def other(): ...
"""


def made(folder: Path, place: str, text: str) -> Path:
    """An unpacked package with one file."""
    file = folder / place
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return folder


def test_vllm(tmp_path: Path) -> None:
    """Types come from the fields of its configurations."""
    found = read_flags("vllm", made(tmp_path, "vllm/engine/arg_utils.py", VLLM))
    names = ("--tensor-parallel-size", "-tp")
    assert found["-tp"] == found["--tensor-parallel-size"] == Known(names, "int")
    assert found["--nnodes"].type == found["--max-model-len"].type == "int"
    assert found["--dtype"] == Known(("--dtype",), "str", ("auto", "bfloat16"))
    assert found["--headless"].type == found["--trust-remote-code"].type == "switch"
    assert found["--host"].type == found["--data-parallel-address"].type == "str"
    assert "--unrelated" not in found


def test_sglang(tmp_path: Path) -> None:
    """Fields with their metadata; those without a flag are left out."""
    found = read_flags("sglang", made(tmp_path, "sglang/srt/arg_groups/fields/parallel.py", SGLANG))
    assert found["--tensor-parallel-size"] == Known(("--tp-size", "--tensor-parallel-size"), "int")
    assert found["--kv-cache-dtype"].choices == ("auto", "fp8_e4m3")
    assert found["--mem-fraction-static"].type == "float"
    assert found["--trust-remote-code"].type == "switch"
    assert "--enable-dp-attention" not in found


def test_tensorrt_llm(tmp_path: Path) -> None:
    """Options of its `serve` command, not of others."""
    found = read_flags("trtllm", made(tmp_path, "tensorrt_llm/commands/serve.py", TRTLLM))
    assert found["--tp_size"].type == "int"
    assert found["--trust_remote_code"].type == "switch"
    assert found["--config"].names == ("--config", "--extra_llm_api_options")
    assert "--port" not in found


def test_what_is_written_is_toml(tmp_path: Path) -> None:
    """As the tests of commands read it."""
    found = read_flags("vllm", made(tmp_path, "vllm/engine/arg_utils.py", VLLM))
    (release,) = tomllib.loads(as_toml("vllm", "9.9", "2026-11-30", found))["release"]
    assert (release["engine"], release["version"]) == ("vllm", "9.9")
    assert release["flags"]["--dtype"] == {"type": "str", "choices": ["auto", "bfloat16"]}
