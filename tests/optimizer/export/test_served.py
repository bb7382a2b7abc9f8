"""A vLLM server's command read back to a layout: as people type it, in containers, in scripts; never run."""

from __future__ import annotations

import contextlib
import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import QuestionError
from optimizer.export.deployment import Deployment, Placement
from optimizer.export.engines.launch import launch
from optimizer.export.scripts import scripts
from optimizer.export.served import ServedLayout, read_vllm
from tests.optimizer.export.deployments import nodes
from tests.optimizer.export.test_engine_commands import H100, one_node, spec

LLAMA_70B, LLAMA_8B = "meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"
DEEPSEEK = "deepseek-ai/DeepSeek-V3"


def sizes(text: str) -> tuple[int, ...]:
    """TP, PP, EP, attention ranks, replicas of a command."""
    read = read_vllm(text)
    return read.tp, read.pp, read.ep, read.attention_dp, read.replicas


@pytest.mark.parametrize(
    "text",
    [
        f"vllm serve {LLAMA_70B} --tensor-parallel-size 4 --pipeline-parallel-size 2",
        f"vllm serve {LLAMA_70B} -tp 4 -pp 2",
        f"vllm serve {LLAMA_70B} -tp=4 --pipeline_parallel_size=2",
        f"vllm serve --tensor_parallel_size 4 -pp 2 --model {LLAMA_70B}",
        f"vllm serve -tp 4 -pp 2 --enable-prefix-caching {LLAMA_70B}",
        f"python -m vllm.entrypoints.openai.api_server --model {LLAMA_70B} -tp 4 -pp 2",
        f"uv run /opt/venv/bin/vllm serve '{LLAMA_70B}' -tp 4 -pp 2",
        f"vllm serve {LLAMA_70B} \\\n    --tensor-parallel-size 4 \\\n    --pipeline-parallel-size 2\n",
        f"vllm serve {LLAMA_70B} -tp 8 -pp 2 -tp 4",
        f"#!/bin/bash\n# start\nset -e\nexport X=1\nexec vllm serve {LLAMA_70B} \\\n  -tp 4 -pp 2\necho done",
        f"docker run --gpus all -v $PWD/vllm:/x -p 8000:8000 vllm/vllm-openai:v0.19.1 --model {LLAMA_70B} -tp 4 -pp 2",
        f"podman run -it reg.example.com:5000/me/vllm-rocm {LLAMA_70B} -tp 4 -pp 2",
        f"docker run -e A=b --entrypoint vllm vllm/vllm-openai:latest vllm serve {LLAMA_70B} -tp 4 -pp 2",
    ],
)
def test_the_same_layout_in_many_spellings(text: str) -> None:
    """Short and long flags, equals signs, underscores, modules, scripts, containers; the last of two wins."""
    assert sizes(text) == (4, 2, 1, 1, 1)
    assert read_vllm(text).model == LLAMA_70B


def test_data_parallel_ranks_are_replicas_of_a_dense_model_and_attention_ranks_of_one_with_experts() -> None:
    """Experts are shared over the ranks, as whole ones where expert parallelism is on."""
    assert sizes(f"vllm serve {LLAMA_8B} -dp 4") == (1, 1, 1, 1, 4)
    assert sizes(f"vllm serve {DEEPSEEK} -dp 8") == (1, 1, 1, 8, 1)
    assert sizes(f"vllm serve {DEEPSEEK} -dp 4 -tp 2 --enable-expert-parallel") == (2, 1, 8, 4, 1)
    assert read_vllm(f"vllm serve {LLAMA_8B} -ep").notes == (
        "--enable-expert-parallel does nothing: the model has no experts",
    )
    assert sizes(f"vllm serve {DEEPSEEK} -tp 8 -ep --disable-expert-parallel")[2] == 1
    assert sizes(f"vllm serve {DEEPSEEK} -tp 8 -ep --no-enable-expert-parallel")[2] == 1
    assert read_vllm(f"vllm serve {DEEPSEEK} -dp 16 -dpl 8").nodes == 2
    assert read_vllm(f"vllm serve {LLAMA_70B} -tp 8 -pp 2 --nnodes 2").nodes == 2


@pytest.mark.parametrize(
    ("said", "weights", "source"),
    [
        ("", "bf16", "the checkpoint"),
        ("--dtype float16", "fp16", "--dtype"),
        ("--dtype auto", "bf16", "the checkpoint"),
        ("-q fp8", "fp8", "--quantization"),
        ("--quantization awq_marlin", "int4", "--quantization"),
        ("--quantization modelopt_fp4", "nvfp4", "--quantization"),
    ],
)
def test_precision_is_read(said: str, weights: str, source: str) -> None:
    """From the flag that says it; else the checkpoint's own."""
    read = read_vllm(f"vllm serve {LLAMA_70B} {said}")
    assert (read.weights, read.weights_from) == (weights, source)


@pytest.mark.parametrize(
    ("name", "weights"), [("FP8-dynamic", "fp8"), ("AWQ-INT4", "int4"), ("NVFP4", "nvfp4"), ("x", "bf16")]
)
def test_a_checkpoint_of_another_name_is_read_by_it(name: str, weights: str) -> None:
    """Where the user says which model of the catalog it is."""
    read = read_vllm(f"vllm serve RedHatAI/Llama-3.1-70B-Instruct-{name}", LLAMA_70B)
    assert (read.weights, read.catalog_model) == (weights, LLAMA_70B)


def test_the_cache_and_the_limits_are_read() -> None:
    """vLLM's own short numbers too: 1k is 1,000, 1K is 1,024."""
    read = read_vllm(
        f"vllm serve {LLAMA_70B} --kv-cache-dtype fp8_e4m3 --max-model-len 32k --max-num-seqs 64 "
        "--max-num-batched-tokens=8K --gpu-memory-utilization 0.93 --trust-remote-code --served-model-name llama"
    )
    assert (read.kv_cache, read.max_model_len, read.max_num_seqs) == ("fp8", 32_000, 64)
    assert (read.max_num_batched_tokens, read.gpu_memory_utilization) == (8192, 0.93)
    assert (read.trust_remote_code, read.served_name) == (True, "llama")
    assert read_vllm(f"vllm serve {LLAMA_70B} --max-model-len -1").max_model_len is None


def test_what_is_not_part_of_the_layout_is_kept_and_secrets_are_not_shown() -> None:
    """Unknown flags with their values, variables, and what follows the command."""
    read = read_vllm(
        f"CUDA_VISIBLE_DEVICES=0,1 HF_TOKEN=hf_secret VLLM_X=1 vllm serve {LLAMA_8B} -tp 4 --api-key sk-secret "
        "--compilation-config '{\"mode\": 3}' --no-enable-prefix-caching --config my.yaml -O3 > log 2>&1"
    )
    assert read.environment == {"CUDA_VISIBLE_DEVICES": "0,1", "HF_TOKEN": "(not shown)", "VLLM_X": "1"}
    assert read.other_flags == (
        "--api-key (not shown)",
        '--compilation-config {"mode": 3}',
        "--no-enable-prefix-caching",
        "-O3",
    )
    assert "secret" not in read.model_dump_json()
    assert any("--config my.yaml is not followed" in note for note in read.notes)
    assert any("shows 2 GPUs and the layout takes 4" in note for note in read.notes)
    assert any(note.startswith("not read: ") for note in read.notes)


def test_the_release_is_the_images() -> None:
    """By its tag, where that is a release."""
    read = read_vllm(f"docker run --rm vllm/vllm-openai:v0.19.1-cu130 --model {LLAMA_8B}")
    assert (read.engine_version, read.engine_name) == ("0.19.1", "vllm@0.19.1")
    assert read_vllm(f"docker run vllm/vllm-openai:latest --model {LLAMA_8B}").engine_version == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "starts no vLLM server"),
        ("rm -rf /", "starts no vLLM server"),
        (f"vllm bench serve --model {LLAMA_8B}", "starts no vLLM server"),
        ("vllm serve 'unclosed", "cannot be split"),
        ("vllm serve", "names no model"),
        ("vllm serve --config x.yaml", "--config x.yaml is not followed"),
        (f"vllm serve {LLAMA_8B} -tp", "-tp: has no value"),
        (f"vllm serve {LLAMA_8B} -tp --port 1", "-tp: has no value"),
        (f"vllm serve {LLAMA_8B} -tp $TP", "variables are not filled in"),
        (f"vllm serve {LLAMA_8B} -tp 0", "expected a whole number"),
        (f"vllm serve {LLAMA_8B} --max-model-len 1e99", "expected a whole number"),
        (f"vllm serve {LLAMA_8B} --gpu-memory-utilization 1.5", "expected a share"),
        ("x" * 200_000, "expected at most 100,000"),
    ],
)
def test_what_vllm_would_refuse_is_refused(text: str, said: str) -> None:
    """In a line that says what was expected."""
    with pytest.raises(QuestionError, match=said.replace("$", r"\$")):
        read_vllm(text)


def test_nothing_of_a_command_is_run(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Substitutions and further commands are text."""
    monkeypatch.chdir(tmp_path)
    hostile = f'A=$(touch a) vllm serve {LLAMA_8B} --port 1 --x "$(touch b)" `touch c`; touch d && touch e | tee f'
    read_vllm(hostile)
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    """Never another error."""
    with contextlib.suppress(QuestionError):
        read_vllm(f"vllm serve {LLAMA_8B} {text}")


SIZES = st.sampled_from([1, 2, 4, 8])


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_every_exported_command_is_read_back_to_the_same_layout(data: st.DataObject) -> None:
    """Layouts drawn at random: as words, and as the script that is written for them."""
    experts = data.draw(st.booleans())
    tp, pp, ranks = data.draw(SIZES), data.draw(st.sampled_from([1, 2])), data.draw(SIZES) if experts else 1
    weights = data.draw(st.sampled_from(["fp8"] if experts else ["bf16", "fp16", "fp8"]))
    made = spec(
        model=DEEPSEEK if experts else LLAMA_70B,
        served_name="a name",
        weights=weights,
        checkpoint_weights="fp8" if experts else "bf16",
        kv_cache=data.draw(st.sampled_from(["bf16", "fp8"] if weights != "fp16" else ["fp16", "fp8"])),
        tp=tp,
        pp=pp,
        attention_dp=ranks,
        ep=data.draw(st.sampled_from([1, tp * ranks])) if experts else 1,
        nodes=data.draw(st.sampled_from([one for one in (1, 2) if tp * pp * ranks % one == 0])),
        max_model_len_tokens=data.draw(st.integers(1, 131072)),
        max_sequences=data.draw(st.integers(1, 4096)),
        max_batched_tokens=data.draw(st.integers(4096, 16384)),
        gpu_memory_fraction=data.draw(st.integers(30, 98)) / 100,
    )
    started = launch(made, H100, port=8000)
    place = Placement("x", 1, (tuple(range(made.gpus_on_each_node)),), (8000,))
    one = Deployment("x", made, started, 1, nodes(), (), (), (place,))
    for text in (shlex.join(started.processes[0].command), scripts((one,))[0].text):
        read = read_vllm(text)
        assert said_of(read) == {
            "model": made.model,
            "served": "a name",
            "weights": weights,
            "kv_cache": made.kv_cache,
            "sizes": (tp, pp, made.ep, ranks),
            "nodes": made.nodes,
            "limits": (made.max_model_len_tokens, -(-made.max_sequences // ranks), made.max_batched_tokens),
            "fraction": made.gpu_memory_fraction,
        }


def said_of(read: ServedLayout) -> dict[str, Any]:
    """What a command says, to compare."""
    return {
        "model": read.model,
        "served": read.served_name,
        "weights": read.weights,
        "kv_cache": read.kv_cache,
        "sizes": (read.tp, read.pp, read.ep, read.attention_dp),
        "nodes": read.nodes,
        "limits": (read.max_model_len, read.max_num_seqs, read.max_num_batched_tokens),
        "fraction": read.gpu_memory_utilization,
    }


def test_a_command_without_a_model_of_the_catalog_names_near_ones() -> None:
    """One node of a model that is known."""
    from catalogs.errors import UnknownNameError  # noqa: PLC0415

    assert one_node().model.startswith("meta-llama/")
    with pytest.raises(UnknownNameError, match=r"Llama-3\.1-70B"):
        read_vllm("vllm serve meta-llama/Llama-3.1-70B-Instrukt")
