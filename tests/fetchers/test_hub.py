"""Models from the Hub, over a real socket: a server on this machine that answers as the Hub does, well and ill."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from catalogs.model_files import load_model
from catalogs.pulled_models import is_hub_id, pulled_path
from fetchers import hub
from fetchers.errors import FetchError
from tests.fetchers.server import Answer, Server, serve
from tests.optimizer.command import Ran, run

pytest.importorskip("huggingface_hub")

MODEL = "some-lab/Tiny-8B"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
TOKEN = "hf_a-token-of-somebody"


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


@pytest.fixture
def environment(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The user's data, the library's cache and the Hub are this test's own."""
    from huggingface_hub import constants  # noqa: PLC0415

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "MAX_TRIES", 1)
    values = {"HF_ENDPOINT": server.url, "HF_HUB_OFFLINE": "", "SHARDWISE_DATA_DIR": str(tmp_path / "data")}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return values


def put(server: Server, filename: str, body: bytes, **headers: str) -> None:
    """Serve a file of the model as the Hub does."""
    for revision in ("main", COMMIT):
        answer = Answer(body, headers={"ETag": f'"{len(body)}-{filename}"', "X-Repo-Commit": COMMIT, **headers})
        server.on(f"/{MODEL}/resolve/{revision}/{filename}", answer)


def refuse(server: Server, status: int, code: str) -> None:
    """Answer every request with an error of the Hub."""
    server.on("*", Answer(b"{}", status, headers={"X-Error-Code": code, "X-Error-Message": code}))


def whole(server: Server) -> None:
    refuse(server, 404, "EntryNotFound")
    put(server, "config.json", json.dumps(CONFIG).encode())
    index = {"metadata": {"total_size": 16_060_522_496}, "weight_map": {}}
    put(server, "model.safetensors.index.json", json.dumps(index).encode())


def fit(**environment: str) -> Ran:
    return run("fit", MODEL, "--gpu", "H100-SXM-80GB", "--json", **environment)


def said(action: Callable[[], Any]) -> str:
    with pytest.raises(FetchError) as caught:
        action()
    return str(caught.value)


def test_a_command_that_names_an_unknown_model_reads_it_from_the_hub_and_answers(
    server: Server, environment: dict[str, str]
) -> None:
    whole(server)
    ran = fit()
    assert ran.code == 0, ran.err
    assert ran.json["model"] == MODEL
    assert f"read {MODEL} from the Hugging Face Hub (revision {COMMIT[:12]}, 16.1 GB of safetensors)" in ran.err
    spec = load_model(MODEL)
    assert spec.total_parameters == 8_030_261_248
    assert COMMIT[:12] in spec.source


def test_a_model_that_was_read_is_not_asked_for_again(server: Server, environment: dict[str, str]) -> None:
    whole(server)
    fit()
    asked = len(server.asked)
    ran = fit(HF_HUB_OFFLINE="1")
    assert (ran.code, ran.err, len(server.asked)) == (0, "", asked)


def test_a_scenario_file_may_name_a_model_of_the_hub(
    server: Server, environment: dict[str, str], tmp_path: Path
) -> None:
    whole(server)
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(f"model: {MODEL}\nworkload: {{input_tokens: 500, output_tokens: 100, request_rate: 1}}\n")
    ran = run("solve", str(scenario), "--json", "--gpu", "H100-SXM-80GB", "--as-of", "2026-08-14")
    assert (ran.code, ran.json["status"]) == (0, "optimal")


def test_the_size_of_a_single_file_is_that_of_its_header(server: Server, environment: dict[str, str]) -> None:
    whole(server)
    refuse_index = Answer(b"", 404, headers={"X-Error-Code": "EntryNotFound"})
    for revision in ("main", COMMIT):
        server.on(f"/{MODEL}/resolve/{revision}/model.safetensors.index.json", refuse_index)
        there = {"X-Repo-Commit": COMMIT, "ETag": '"w"', "X-Linked-Size": "16060522496", "X-Linked-Etag": '"w"'}
        away = Answer(b"", 302, headers={**there, "Location": "https://elsewhere.example/weights"})
        server.on(f"/{MODEL}/resolve/{revision}/model.safetensors", away)
    assert hub.pull_model(MODEL).safetensors_bytes == 16_060_522_496


def test_weights_of_another_size_than_the_config_makes_are_pointed_out(
    server: Server, environment: dict[str, str]
) -> None:
    whole(server)
    put(server, "model.safetensors.index.json", b'{"metadata": {"total_size": 5000000000}}')
    assert "by its config.json the weights would take 16.1 GB" in fit().err


def test_the_quantization_that_stands_in_a_file_of_its_own_counts(server: Server, environment: dict[str, str]) -> None:
    whole(server)
    quantization = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "exclude_modules": []}}
    put(server, "hf_quant_config.json", json.dumps(quantization).encode())
    assert hub.pull_model(MODEL).spec.checkpoint.weights == "fp8"


def test_the_token_comes_from_the_environment_and_stays_out_of_everything(
    server: Server, environment: dict[str, str], tmp_path: Path
) -> None:
    whole(server)
    ran = fit(HF_TOKEN=TOKEN)
    assert {asked.headers.get("authorization") for asked in server.asked} == {f"Bearer {TOKEN}"}
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert TOKEN not in ran.out + ran.err
    assert TOKEN.encode() not in kept


def test_without_a_token_none_is_sent_not_even_one_that_the_library_keeps(
    server: Server, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants  # noqa: PLC0415

    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    whole(server)
    hub.pull_model(MODEL)
    assert {asked.headers.get("authorization") for asked in server.asked} == {None}


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (401, "GatedRepo", "is gated"),
        (403, "GatedRepo", "is gated"),
        (401, "RepoNotFound", "no such model, or it is private"),
        (404, "RepoNotFound", "no such model, or it is private"),
        (404, "EntryNotFound", "has no config.json"),
        (503, "", "answers with HTTP 503"),
    ],
)
def test_what_the_hub_refuses_is_explained(
    server: Server, environment: dict[str, str], status: int, code: str, expected: str
) -> None:
    refuse(server, status, code)
    ran = fit()
    assert (ran.code, ran.out) == (2, "")
    assert f"Unknown model '{MODEL}'" in ran.err
    assert expected in ran.err
    assert "config.json" in ran.err  # what to do instead
    assert not pulled_path(MODEL).exists()


def test_a_hub_that_cannot_be_reached_is_explained(environment: dict[str, str]) -> None:
    ran = fit(HF_ENDPOINT="http://127.0.0.1:9")
    assert ran.code == 2
    assert "127.0.0.1 cannot be reached" in ran.err


def test_offline_nothing_is_asked(server: Server, environment: dict[str, str]) -> None:
    ran = fit(HF_HUB_OFFLINE="1")
    assert (ran.code, server.asked) == (2, [])
    assert "HF_HUB_OFFLINE is set" in ran.err


def test_redirects_to_another_host_are_refused(server: Server, environment: dict[str, str]) -> None:
    whole(server)
    with serve() as other:
        there = {"Location": f"{other.url}/config.json", "X-Repo-Commit": COMMIT, "ETag": '"x"', "X-Linked-Size": "9"}
        server.on(f"/{MODEL}/resolve/main/config.json", Answer(b"", 302, headers=there))
        assert "leads to another host" in said(lambda: hub.pull_model(MODEL))
        assert other.asked == []


def test_redirects_on_the_hub_itself_are_followed(server: Server, environment: dict[str, str]) -> None:
    whole(server)
    for revision in ("main", COMMIT):
        there = {"Location": f"/api/resolve-cache/{revision}/config.json"}
        server.on(f"/{MODEL}/resolve/{revision}/config.json", Answer(b"", 307, headers=there))
        body = json.dumps(CONFIG).encode()
        answer = Answer(body, headers={"ETag": '"c"', "X-Repo-Commit": COMMIT})
        server.on(f"/api/resolve-cache/{revision}/config.json", answer)
    assert hub.pull_model(MODEL).revision == COMMIT


@pytest.mark.parametrize("chunked", [False, True])
def test_a_huge_file_is_not_taken_in(
    server: Server, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, chunked: bool
) -> None:
    monkeypatch.setattr(hub, "MAX_FILE_BYTES", 100_000)
    whole(server)
    answer = Answer(b" " * 300_000, headers={"ETag": '"h"', "X-Repo-Commit": COMMIT}, chunked=chunked)
    server.on(f"/{MODEL}/resolve/main/config.json", answer)
    assert "a file of" in said(lambda: hub.pull_model(MODEL))


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b'{"model_type": "unheard-of"}', b"[" * 50_000])
def test_a_config_that_is_none_is_not_kept(server: Server, environment: dict[str, str], body: bytes) -> None:
    whole(server)
    put(server, "config.json", body)
    assert MODEL in said(lambda: hub.pull_model(MODEL))
    assert not pulled_path(MODEL).exists()


def test_another_endpoint_than_this_machine_is_not_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example")
    assert hub._endpoint() == hub.HUB


def test_a_missing_library_is_named_with_its_install_line(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    assert 'pip install "shardwise[hub]"' in fit().err


@pytest.mark.parametrize("name", ["some-lab/Tiny-8B", "Qwen/Qwen3-0.6B", "a/b", "01-ai/Yi_1.5"])
def test_names_of_the_hub(name: str) -> None:
    assert is_hub_id(name)


@pytest.mark.parametrize(
    "name",
    ["Tiny-8B", "a/b/c", "../b", "a/..", "a/b--c", "a/-b", "a/b.", "a b/c", "a/b?x", "a/b%2f", "a/é", "/b", "a/"],
)
def test_names_that_are_no_models_of_the_hub_are_never_asked_for(
    server: Server, environment: dict[str, str], name: str
) -> None:
    assert not is_hub_id(name)
    assert "no name of a model" in said(lambda: hub.pull_model(name))
    assert server.asked == []


def test_a_damaged_kept_model_says_what_to_do(environment: dict[str, str]) -> None:
    path = pulled_path(MODEL)
    path.parent.mkdir(parents=True)
    path.write_text("{")
    ran = fit()
    assert ran.code == 2
    assert "delete it to have it read from the Hub anew" in ran.err
