"""A page that lists the service's routes: plain HTML, which loads nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;"
    "background:#fff}pre{background:#f3f4f6;padding:.8rem;overflow-x:auto;border-radius:4px}code{font-size:.9em}"
    "h2{margin-top:2.5rem;font-size:1.1rem}@media(prefers-color-scheme:dark){body{color:#e6e8eb;background:#16191d}"
    "pre{background:#22262c}a{color:#8ab4f8}}"
)


def reference(schema: Mapping[str, Any]) -> str:
    """Return the page for an OpenAPI description."""
    info = schema["info"]
    parts = "".join(_operations(schema))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(info["title"])} API</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>{_paragraphs(info.get('description', ''))}"
        f'<p>Schemas of all questions and answers: <a href="openapi.json">openapi.json</a>.</p>{parts}</body></html>'
    )


def _operations(schema: Mapping[str, Any]) -> Iterator[str]:
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
            yield _paragraphs(operation.get("description") or operation.get("summary", ""))
            if (parameters := operation.get("parameters")) is not None:
                names = ", ".join(f"<code>{escape(one['name'])}</code>" for one in parameters)
                yield f"<p>Parameters: {names}.</p>"
            if (example := _example(schema, operation)) is not None:
                body = json.dumps(example, indent=2)
                yield f"<pre>{escape(body)}</pre>"


def _example(schema: Mapping[str, Any], operation: Mapping[str, Any]) -> Any:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    examples = schema["components"]["schemas"].get(name, {}).get("examples")
    return examples[0] if examples else None


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(part.strip())}</p>" for part in text.split("\n\n") if part.strip())
