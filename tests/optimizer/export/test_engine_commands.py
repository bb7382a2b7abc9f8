"""Command lines of engines: every flag is one that the release has, and says the layout."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import QuestionError
from optimizer.export.deployment import EngineLaunch, ReplicaSpec
from optimizer.export.engines.launch import launch
from optimizer.export.engines.shell import quoted
from tests.optimizer.export.deployments import replica
from tests.optimizer.export.flags import parsed, server_of

H100, MI300, GAUDI = "H100-SXM-80GB", "MI300X-192GB", "Gaudi2-96GB"


def spec(**changed: Any) -> ReplicaSpec:
    """Llama 3.1 405B in BF16 over two nodes of eight GPUs; fields change it."""
    name = "meta-llama/Llama-3.1-405B-Instruct"
    across = {"pp": 2, "nodes": 2, "max_model_len_tokens": 2500, "max_sequences": 104, "gpu_memory_fraction": 0.8}
    return replica(**{"model": name, "served_name": name, **across, **changed})


def one_node(**changed: Any) -> ReplicaSpec:
    """The same model within a node."""
    return spec(**{"pp": 1, "nodes": 1, **changed})


def started(one: ReplicaSpec, gpu: str = H100, port: int = 8000, image: str | None = None) -> EngineLaunch:
    """The launch of a replica, each of its servers' commands held against its engine's flags."""
    found = launch(one, gpu, port=port, image=image)
    for process in found.processes:
        if process.command[0] != "ray":
            parsed(process.command, found.engine, found.version)
    return found


def test_vllm_on_one_node() -> None:
    """One server: the split, the limits and the precision as they are planned."""
    found = started(one_node(kv_cache="fp8", weights="fp8"))
    assert [process.role for process in found.processes] == ["server"]
    assert shlex.join(found.processes[0].command) == (
        "vllm serve meta-llama/Llama-3.1-405B-Instruct --host 0.0.0.0 --port 8000 --tensor-parallel-size 8 "
        "--gpu-memory-utilization 0.80 --max-model-len 2500 --max-num-seqs 104 --max-num-batched-tokens 8192 "
        "--kv-cache-dtype fp8 --quantization fp8"
    )
    assert found.image == "vllm/vllm-openai:v0.33.0"
    assert found.secrets == ("HF_TOKEN",)


def test_vllm_joins_nodes_by_itself_since_0_12() -> None:
    """Leader and workers run the same command with their rank; workers serve nothing."""
    found = started(spec())
    leader, worker = found.processes
    assert not found.ray
    assert leader.command[-8:] == (
        *("--distributed-executor-backend", "mp", "--nnodes", "2"),
        *("--master-addr", "$LEADER_ADDRESS", "--node-rank", "0"),
    )
    assert worker.command[-3:] == ("--node-rank", "$NODE_RANK", "--headless")
    assert leader.command[:-1] == worker.command[:-2]
    assert (leader.ready_path, worker.ready_path) == ("/health", "")


def test_vllm_before_that_took_ray() -> None:
    """A head that serves once the cluster is there, and workers that join it."""
    found = started(spec(engine_version="0.11.0"))
    leader, worker = found.processes
    assert found.ray
    assert leader.command[2].startswith("ray start --head --port=6379 && exec vllm serve ")
    assert server_of(leader.command)[-2:] == ["--distributed-executor-backend", "ray"]
    assert worker.command == ("ray", "start", "--block", "--address=$LEADER_ADDRESS:6379")


@pytest.mark.parametrize(("nodes", "said"), [(2, "8"), (4, "$(($NODE_RANK * 4))")])
def test_data_parallel_ranks_of_older_vllm_have_flags_of_their_own(nodes: int, said: str) -> None:
    """Each node runs its share of the ranks, counted from its own first one."""
    deepseek = {"model": "deepseek-ai/DeepSeek-V3", "weights": "fp8", "checkpoint_weights": "fp8"}
    one = spec(**deepseek, tp=1, pp=1, attention_dp=16, ep=16, nodes=nodes, engine_version="0.11.0")
    leader, worker = launch(one, H100, port=8000).processes
    assert parsed(leader.command, "vllm", "0.11.0")["--data-parallel-size-local"] == str(16 // nodes)
    if nodes == 2:
        assert parsed(worker.command, "vllm", "0.11.0")["--data-parallel-start-rank"] == said
    else:
        assert worker.command[2].endswith(f"--data-parallel-start-rank {said}")
    assert "--headless" in " ".join(worker.command)


def test_what_a_release_cannot_do_is_refused() -> None:
    """A rank over nodes before vLLM could, pipelines before SGLang had them, releases that are not known of."""
    with pytest.raises(QuestionError, match=r"within one node; from 0\.12 on"):
        launch(spec(attention_dp=2, tp=8, pp=1, nodes=4, engine_version="0.11.0"), H100, port=1)
    with pytest.raises(QuestionError, match="does not spread"):
        launch(spec(attention_dp=2, pp=1, engine_version="0.8.5"), H100, port=1)
    with pytest.raises(QuestionError, match="has no pipeline stages"):
        launch(spec(engine="sglang", engine_version="0.4.8"), H100, port=1)
    with pytest.raises(QuestionError, match=r"expected 0\.8 to 0\.33\.0"):
        launch(spec(engine_version="0.5.0"), H100, port=1)
    with pytest.raises(QuestionError, match="divide over 3 nodes"):
        launch(spec(nodes=3), H100, port=1)


def test_vllm_estimates_graphs_of_gathered_experts_far_too_high() -> None:
    """The variable that turns the estimate off is set where it would take the whole GPU, and only there."""
    experts = {"model": "deepseek-ai/DeepSeek-V3", "weights": "fp8", "checkpoint_weights": "fp8", "tp": 1}
    found = started(one_node(**experts, attention_dp=8, ep=8))
    assert found.environment == (("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "0"),)
    assert started(one_node(**experts, attention_dp=8)).environment == ()
    assert started(one_node(**experts, attention_dp=8, ep=8, engine_version="0.19")).environment == ()


def test_sglang_over_nodes() -> None:
    """All nodes run the same command with their rank."""
    found = started(spec(engine="sglang"))
    leader, worker = found.processes
    assert leader.command[:5] == ("python3", "-m", "sglang.launch_server", "--model-path", spec().model)
    assert leader.command[-6:] == ("--dist-init-addr", "$LEADER_ADDRESS:20000", "--nnodes", "2", "--node-rank", "0")
    assert worker.command == (*leader.command[:-1], "$NODE_RANK")


@pytest.mark.parametrize(("version", "flags"), [("0.5.23", {"--attn-dp-size": "8"}), ("0.5.21", {"--dp-size": "8"})])
def test_sglang_counts_all_attention_ranks(version: str, flags: dict[str, str]) -> None:
    """Its tensor parallel size, requests and prefill chunk are of all ranks together."""
    one = one_node(engine="sglang", engine_version=version, tp=1, attention_dp=8, ep=8, max_sequences=100)
    said = parsed(launch(one, H100, port=8000).processes[0].command, "sglang", version)
    assert flags.items() <= said.items()
    assert said["--tp-size"] == said["--ep-size"] == "8"
    assert said["--max-running-requests"] == "104"
    assert said["--chunked-prefill-size"] == "65536"


def test_tensorrt_llm_writes_the_settings_that_no_flag_says(tmp_path: Path) -> None:
    """Run by bash, the command leaves a file of settings that YAML reads, and starts the server with it."""
    one = one_node(engine="trtllm", tp=2, attention_dp=4, ep=8, kv_cache="fp8", weights="fp8", checkpoint_weights="fp8")
    (server,) = started(one).processes
    text = server.command[2]
    file = text.rsplit(" ", 1)[1]
    assert text.endswith(f"--config {file}")
    shown = text.replace("exec trtllm-serve", f"cat {tmp_path}/settings.yaml #").replace(
        file, f"{tmp_path}/settings.yaml"
    )
    done = subprocess.run(["bash", "-c", shown], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "enable_attention_dp: true\nkv_cache_config:\n  dtype: fp8\n  free_gpu_memory_fraction: 0.8\n"
    )


def test_tensorrt_llm_over_nodes_runs_under_mpi() -> None:
    """MPI starts a process for each GPU from the leader; a blank in an argument would break its launcher."""
    found = started(spec(engine="trtllm"))
    (leader,) = found.processes
    assert found.mpi
    assert leader.command[:6] == ("mpirun", "--allow-run-as-root", "-n", "16", "--host", "$HOSTS")
    assert "trtllm-llmapi-launch" in leader.command
    with pytest.raises(QuestionError, match="blanks"):
        launch(spec(engine="trtllm", model="/models/my llama"), H100, port=1)


def test_images_by_maker_of_the_gpu() -> None:
    """AMD has images of its own; where none is known, one has to be named."""
    assert started(one_node(), MI300).image == "vllm/vllm-openai-rocm:v0.33.0"
    assert started(one_node(engine="sglang"), MI300).image == "lmsysorg/sglang:v0.5.23-rocm720-mi30x"
    assert started(one_node(engine="trtllm")).image == "nvcr.io/nvidia/tensorrt-llm/release:1.2.1"
    with pytest.raises(QuestionError, match="NVIDIA GPUs only"):
        launch(one_node(engine="trtllm"), MI300, port=1)
    with pytest.raises(QuestionError, match="--image"):
        launch(one_node(engine_version="0.10"), MI300, port=1)
    assert started(one_node(engine_version="0.11"), MI300, image="me/vllm:1").image == "me/vllm:1"


def test_a_version_of_two_numbers_is_the_last_of_its_series() -> None:
    """An image's tag is of a whole release."""
    assert started(one_node(engine_version="0.19")).image == "vllm/vllm-openai:v0.19.1"
    assert started(one_node(engine_version="0.12")).version == "0.12.0"
    found = started(one_node(engine_version="0.40.1"))
    assert any("checked against vllm 0.33.0" in note for note in found.notes)


def test_a_checkpoint_that_is_missing_is_said() -> None:
    """INT4 is not made while loading."""
    found = started(one_node(weights="int4"))
    assert any("AWQ, GPTQ" in note and "--model" in note for note in found.notes)


def test_tokens_are_asked_for_where_the_hub_wants_one() -> None:
    """Gated families need one; public models may have one; a folder needs none."""
    assert started(one_node(model="Qwen/Qwen3-32B")).optional_secrets == ("HF_TOKEN",)
    assert started(one_node(model="Qwen/Qwen3-32B")).secrets == ()
    local = started(one_node(model="/models/llama"))
    assert (local.secrets, local.optional_secrets) == ((), ())
    assert "--served-model-name" in local.processes[0].command


@pytest.mark.parametrize("name", ["-rf", "a\nb", "a\x00b"])
def test_names_that_cannot_be_arguments_are_refused(name: str) -> None:
    """A name that looks like a flag, or breaks a line."""
    with pytest.raises(QuestionError, match="printable"):
        launch(one_node(model=name), H100, port=1)


@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=30))
@settings(max_examples=30, deadline=None)
def test_quoted_words_reach_the_program_as_they_are(word: str) -> None:
    """Whatever is in a word, bash passes it on unchanged."""
    done = subprocess.run(["bash", "-c", f"printf %s {quoted(word)}"], capture_output=True, check=True)
    assert done.stdout.decode() == word


def test_placeholders_are_filled_in_and_nothing_else() -> None:
    """Only the variables of a leader and a rank are expanded."""
    line = f"LEADER_ADDRESS=10.0.0.1; HOME=/home/someone; printf %s {quoted('$LEADER_ADDRESS:20000 $HOME $(id)')}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout == "10.0.0.1:20000 $HOME $(id)"


SIZES = st.sampled_from([1, 2, 4, 8])
VERSIONS = {
    "vllm": ("0.9.0", "0.11.0", "0.12.0", "0.33.0"),
    "sglang": ("0.4.10", "0.5.21", "0.5.23"),
    "trtllm": ("1.2",),
}


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_every_layout_is_said_in_flags_that_the_release_has(data: st.DataObject) -> None:
    """Layouts drawn at random, in every engine and release whose flags are restated."""
    engine = data.draw(st.sampled_from(sorted(VERSIONS)))
    tp, pp, ranks = data.draw(SIZES), data.draw(st.sampled_from([1, 2, 4])), data.draw(SIZES)
    nodes = data.draw(st.sampled_from([one for one in (1, 2, 4) if tp * pp * ranks % one == 0]))
    one = spec(
        engine=engine,
        engine_version=data.draw(st.sampled_from(VERSIONS[engine])),
        weights=data.draw(st.sampled_from(["bf16", "fp16", "fp8", "int4", "nvfp4", "mxfp4", "int8", "fp32"])),
        checkpoint_weights=data.draw(st.sampled_from(["bf16", "fp8", "int4"])),
        kv_cache=data.draw(st.sampled_from(["bf16", "fp16", "fp8"])),
        checkpoint_kv_cache=data.draw(st.sampled_from(["bf16", "fp8"])),
        tp=tp,
        pp=pp,
        attention_dp=ranks,
        ep=data.draw(st.sampled_from([1, tp * ranks])),
        nodes=nodes,
        max_sequences=data.draw(st.integers(1, 4096)),
        max_batched_tokens=data.draw(st.sampled_from([1, 512, 8192])),
        trust_remote_code=data.draw(st.booleans()),
    )
    try:
        found = started(one)
    except QuestionError:
        if nodes == 1:
            raise
        return
    assert found.processes[0].role == ("server" if nodes == 1 else "leader")
