"""Restate the flags that are typed for engines, with type and choices, from an unpacked package of an engine.

    python -m tests.data.engine_flags ENGINE VERSION FOLDER READ_ON >> tests/data/engine_flags.toml

FOLDER holds the package (`vllm`, `sglang` or `tensorrt_llm`) as its wheel or repository has it. Nothing of it is run:
files are read with ast. Only the flags of NAMES are kept, under each name that the engine takes them by.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_VLLM = """
--host --port --served-model-name --trust-remote-code --headless --dtype --quantization --kv-cache-dtype
--max-model-len --gpu-memory-utilization --max-num-seqs --max-num-batched-tokens --tensor-parallel-size
--pipeline-parallel-size --enable-expert-parallel --distributed-executor-backend --nnodes --node-rank --master-addr
--data-parallel-size --data-parallel-size-local --data-parallel-start-rank --data-parallel-address
--data-parallel-rpc-port
"""
_SGLANG = """
--model-path --host --port --served-model-name --trust-remote-code --dtype --quantization --kv-cache-dtype
--context-length --mem-fraction-static --max-running-requests --chunked-prefill-size --tp-size --pp-size --dp-size
--attn-dp-size --enable-dp-attention --ep-size --dist-init-addr --nnodes --node-rank
"""
_TRTLLM = """
--host --port --trust_remote_code --tp_size --pp_size --ep_size --max_batch_size --max_num_tokens --max_seq_len
--kv_cache_free_gpu_memory_fraction --config --extra_llm_api_options
"""
NAMES = {"vllm": _VLLM.split(), "sglang": _SGLANG.split(), "trtllm": _TRTLLM.split()}
SOURCES = {
    "vllm": ("engine/arg_utils.py", "entrypoints/openai/cli_args.py", "entrypoints/common/cli_args.py",
             "entrypoints/cli/serve.py", "config.py", "config/*.py", "model_executor/layers/quantization/__init__.py"),
    "sglang": ("srt/server_args.py", "srt/arg_groups/fields/*.py", "srt/arg_groups/choices.py"),
    "trtllm": ("commands/serve.py",),
}  # fmt: skip
PACKAGES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt_llm"}


@dataclass(frozen=True)
class Known:
    """One flag: its names, "int", "float", "str" or "switch", and the values it takes where they are few."""

    names: tuple[str, ...]
    type: str
    choices: tuple[str, ...] = ()


class Tree:
    """The parsed files of an engine."""

    def __init__(self, engine: str, folder: Path):
        package = folder / PACKAGES[engine]
        files = [file for pattern in SOURCES[engine] for file in sorted(package.glob(pattern))]
        self.modules = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
        self.constants: dict[str, ast.expr] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        for module in self.modules:
            for node in ast.walk(module):
                if isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, node)
            for statement in module.body:
                if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                    self.constants[statement.targets[0].id] = statement.value

    def calls(self, name: str) -> Iterator[ast.Call]:
        """Yield the calls of something of this name, whatever it is a part of."""
        for module in self.modules:
            for node in ast.walk(module):
                if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == name:
                    yield node

    def values(self, node: ast.expr | None) -> tuple[str, ...]:
        """Return the texts that a list, or the name of one, holds; empty where that cannot be read."""
        if isinstance(node, ast.Name):
            return self.values(self.constants.get(node.id))
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return tuple(one.value for one in node.elts if isinstance(one, ast.Constant) and isinstance(one.value, str))
        return ()

    def typed(self, node: ast.expr | None) -> tuple[str, tuple[str, ...]]:
        """Return the type that an annotation is, and its choices where it is a Literal and nothing else but None."""
        words = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} if node is not None else set()
        if node is not None:
            words |= {
                one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)
            }
        literal = self._literal(node)
        if literal:
            return "str", literal
        if "bool" in words:
            return "switch", ()
        return ("float" if "float" in words else "int" if "int" in words and "str" not in words else "str"), ()

    def _literal(self, node: ast.expr | None) -> tuple[str, ...]:
        """Return what a Literal allows; a union with a type of text allows anything that the code goes on to check."""
        if isinstance(node, ast.Name):
            return self._literal(self.constants.get(node.id))
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Literal":
            return self.values(node.slice if isinstance(node.slice, ast.Tuple) else ast.Tuple([node.slice], ast.Load()))
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") in {"Optional", "Union"}:
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        elif isinstance(node, ast.BinOp):
            parts = [node.left, node.right]
        else:
            return ()
        return next(filter(None, map(self._literal, parts)), ())


def read_flags(engine: str, folder: Path) -> dict[str, Known]:
    """Return the flags of NAMES that an engine has, by each of their names."""
    tree = Tree(engine, folder)
    found = [*_added(tree), *_fields(tree)] if engine != "trtllm" else list(_options(tree))
    wanted = set(NAMES[engine])
    return {name: one for one in found for name in one.names if wanted & set(one.names)}


def _added(tree: Tree) -> Iterator[Known]:
    """Yield what `add_argument` adds, with its type from the fields of a class where it says so."""
    groups = _kwargs(tree)
    for call in tree.calls("add_argument"):
        names = tuple(
            one.value for one in call.args if isinstance(one, ast.Constant) and str(one.value).startswith("-")
        )
        if not names:
            continue
        said = {one.arg: one.value for one in call.keywords}
        spread = said.pop(None, None)
        if isinstance(spread, ast.Dict):  # the keywords of a field with another default
            spread = next((one for one in spread.values if isinstance(one, ast.Subscript)), None)
        annotation = None
        if isinstance(spread, ast.Subscript) and isinstance(spread.slice, ast.Constant):
            annotation = _annotation(tree, groups.get(getattr(spread.value, "id", ""), ""), str(spread.slice.value))
        kind, choices = tree.typed(annotation if annotation is not None else said.get("type"))
        action = said.get("action")
        words = ast.unparse(action) if action is not None else ""
        if "store_true" in words or "StoreTrue" in words or "BooleanOptional" in words:
            kind = "switch"
        yield Known(names, kind, tree.values(said.get("choices")) or choices)


def _kwargs(tree: Tree) -> dict[str, str]:
    """Return which class each `..._kwargs = get_kwargs(Class)` is of."""
    found = {}
    for module in tree.modules:
        for node in ast.walk(module):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or not node.value.args:
                continue
            if getattr(node.value.func, "id", "") == "get_kwargs" and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = getattr(node.value.args[0], "id", "")
    return found


def _annotation(tree: Tree, owner: str, name: str) -> ast.expr | None:
    body = tree.classes[owner].body if owner in tree.classes else []
    for node in body:
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == name:
            return node.annotation
    return None


def _fields(tree: Tree) -> Iterator[Known]:
    """Yield flags that are made from the fields of a class: vLLM's frontend, SGLang's namespaces."""
    for owner in tree.classes.values():
        frontend = "FrontendArgs" in owner.name
        for node in owner.body:
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            flag = "--" + node.target.id.replace("_", "-")
            annotation = node.annotation
            marked = isinstance(annotation, ast.Subscript) and getattr(annotation.value, "id", "") == "A"
            if frontend:
                yield Known((flag,), *tree.typed(annotation))
            elif marked and isinstance(annotation.slice, ast.Tuple):
                yield from _marked(tree, flag, annotation.slice.elts)


def _marked(tree: Tree, flag: str, parts: list[ast.expr]) -> Iterator[Known]:
    """Yield the flag of SGLang's A[type, Arg(...)]."""
    said: dict[str | None, Any] = {}
    if isinstance(parts[1], ast.Call):
        said = {one.arg: one.value for one in parts[1].keywords}
    if isinstance(said.get("no_cli"), ast.Constant):
        return
    name = said["cli_name"].value if isinstance(said.get("cli_name"), ast.Constant) else flag
    kind, choices = tree.typed(parts[0])
    yield Known((name, *tree.values(said.get("aliases"))), kind, tree.values(said.get("choices")) or choices)


def _options(tree: Tree) -> Iterator[Known]:
    """Yield the options of TensorRT-LLM's `serve` command."""
    for module in tree.modules:
        for node in ast.walk(module):
            if not isinstance(node, ast.FunctionDef) or node.name != "serve":
                continue
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "option":
                    said = {one.arg: one.value for one in call.keywords}
                    names = tuple(str(one.value) for one in call.args if isinstance(one, ast.Constant))
                    kind = "switch" if "is_flag" in said else tree.typed(said.get("type"))[0]
                    yield Known(tuple(name for name in names if name.startswith("-")), kind)


def as_toml(engine: str, version: str, read_on: str, flags: dict[str, Known]) -> str:
    """Return the flags of a release as a table."""
    lines = ["[[release]]", f'engine = "{engine}"', f'version = "{version}"', f"read_on = {read_on}"]
    lines.append(f"source = {json.dumps(', '.join(f'{PACKAGES[engine]}/{one}' for one in SOURCES[engine]))}")
    lines.append("[release.flags]")
    for name, one in sorted(flags.items()):
        choices = f", choices = {json.dumps(one.choices)}" if one.choices else ""
        lines.append(f'"{name}" = {{type = "{one.type}"{choices}}}')
    return "\n".join(lines) + "\n\n"


if __name__ == "__main__":
    asked_engine, asked_version, asked_folder, asked_day = sys.argv[1:]
    sys.stdout.write(as_toml(asked_engine, asked_version, asked_day, read_flags(asked_engine, Path(asked_folder))))
