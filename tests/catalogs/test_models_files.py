"""load_model on paths: a config, a folder, facts by hand in YAML, and files that are none of these."""

import json
import os
from pathlib import Path

import pytest

from catalogs.errors import DataFileError, UnknownNameError
from catalogs.models import load_model

CONFIG = {
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "intermediate_size": 4096,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
}


def test_a_config_file_and_its_folder_give_the_same_model(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    by_file, by_folder = load_model(folder / "config.json"), load_model(str(folder))
    assert by_file == by_folder
    assert by_file.name == "my-model"


def test_a_quantization_file_in_the_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "FP8"}}))
    assert load_model(tmp_path).checkpoint.weights == "fp8"


def test_facts_by_hand_may_be_yaml(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        """
shardwise_model:
  hidden_size: 1024
  vocab_size: 1000
  max_context_tokens: 4096
  layers:
    - count: 4
      attention: {kind: full, query_heads: 8, kv_heads: 8, head_dim: 128}
      mlp: {kind: dense, intermediate_size: 4096}
"""
    )
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert load_model(file).layers == load_model(tmp_path).layers
    assert load_model(file).name == "mine"


def test_the_token_infinity_which_some_configs_hold_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"time_step_limit": [0.0, float("inf")]}))
    assert load_model(tmp_path).hidden_size == 1024


def test_a_local_folder_wins_over_a_bundled_name_only_when_it_holds_a_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "openai" / "gpt-oss-120b"
    folder.mkdir(parents=True)
    assert load_model("openai/gpt-oss-120b").architecture == "gpt_oss"
    (folder / "config.json").write_text(json.dumps(CONFIG))
    assert load_model("openai/gpt-oss-120b").architecture == "llama"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON: .* line 1"),
        (b"[1, 2]", "holds a list"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"model_type": "llama"}', "missing keys: hidden_size"),
        (b'{"a": ' + b"9" * 5000 + b"}", "cannot be read"),
        (b"{}", "missing keys: model_type"),
    ],
)
def test_a_file_that_is_no_config_is_refused_with_its_path_and_the_reason(
    tmp_path: Path, content: bytes, said: str
) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(DataFileError, match=said) as caught:
        load_model(file)
    assert str(file) in str(caught.value)


def test_broken_yaml_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "facts.yaml"
    file.write_text("shardwise_model: [")
    with pytest.raises(DataFileError, match="not YAML"):
        load_model(file)


def test_a_file_larger_than_any_config_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    with file.open("wb") as handle:
        handle.truncate(40_000_000)
    with pytest.raises(DataFileError, match="larger than 32 MB"):
        load_model(file)


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "config.json"
    os.mkfifo(pipe)
    with pytest.raises(DataFileError, match="not a regular file"):
        load_model(pipe)


@pytest.mark.parametrize("path", ["/no/such/config.json", "./missing", "~/missing.json", "x.json", "a\0b.json"])
def test_a_missing_file_is_reported_as_a_file(path: str) -> None:
    with pytest.raises(DataFileError):
        load_model(path)


@pytest.mark.parametrize("name", ["no-such-model", "a" * 5000, "a\0b", "mistralai"])
def test_what_is_neither_path_nor_name_is_reported_as_a_name(name: str) -> None:
    with pytest.raises(UnknownNameError, match=r"config\.json"):
        load_model(name)
