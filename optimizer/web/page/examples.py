"""Questions to begin with, and what the page says before one is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from optimizer.web.page.elements import Words, box, button
from optimizer.web.page.fields import DEFAULT, Question

EXAMPLES: dict[str, Question] = {
    "70B chat": DEFAULT,
    "405B across nodes": {
        "model": "meta-llama/Llama-3.1-405B-Instruct",
        "workload": {"input_tokens": 2000, "output_tokens": 500, "request_rate": 1},
        "targets": {"tpot_ms": 120},
        "limits": {"gpus": ["H100-SXM-80GB", "A100-SXM-80GB"]},
    },
    "70B on too small a budget": {
        "model": "meta-llama/Llama-3.1-70B-Instruct",
        "workload": {"input_tokens": 8000, "output_tokens": 500, "request_rate": 8},
        "targets": {"ttft_ms": 400, "tpot_ms": 25},
        "limits": {"budget_usd_per_hour": 6},
    },
}


def show_start(ask: Callable[[Question], Any]) -> None:
    """Say how to begin; `ask` is called with the question of an example."""
    with box("section", "card empty"):
        Words("Describe the service on the left and press Solve.", "h2")
        Words(
            "The answer is the cheapest layout of GPUs in the catalog that carries the traffic within its targets: "
            "proved, with its price, memory, latency and launch files. Or start from one of these:",
            "p",
            "muted",
        )
        with box("div", "actions"):
            for name, question in EXAMPLES.items():
                button(name, lambda question=question: ask(question))
