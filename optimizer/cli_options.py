"""The flags of the command line that several commands share, and how flags are described."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from optimizer import completion

TRAFFIC, TARGETS, LIMITS, MEMORY, SPEED, PRICES, OUTPUT = (
    "Traffic",
    "Latency targets (means; --at for a percentile)",
    "What is allowed (repeat a flag, or join values by commas)",
    "Memory",
    "Speed figures",
    "Prices",
    "Output",
)


def option(
    *names: str,
    help: str,  # noqa: A002  typer's own word
    metavar: str = "",
    default: str | None = None,
    panel: str | None = None,
) -> Any:
    """Describe a flag. Values are checked where the question is built, so that flags and files get the same answers.

    Args:
        names: the flag as it is typed.
        help: what it says.
        metavar: what stands for its value; nothing for a switch.
        default: what it is when not given, for the help text.
        panel: the heading that it stands under.
    """
    said = f"{help} Default: {default}." if default else help
    return typer.Option(
        *names,
        help=said,
        metavar=metavar,
        show_default=False,
        rich_help_panel=panel,
        autocompletion=completion.of_flag(names[0]),
    )


Text = str | None
Texts = list[str] | None
Json = Annotated[bool, option("--json", help="Print JSON instead of tables.", panel=OUTPUT)]


def _without_calibration(off: bool) -> None:
    if off:
        os.environ["SHARDWISE_CALIBRATION"] = "off"


NoCalibration = Annotated[
    bool,
    typer.Option(
        "--no-calibration",
        callback=_without_calibration,
        help="Leave your own calibration out (see `shardwise calibrate`).",
        metavar="",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
Plot = Annotated[
    Path | None,
    option(
        "--plot", help="Draw it: .png, .svg, .html (with the numbers) or .pdf; needs matplotlib.", metavar="FILE",
        panel=OUTPUT,
    ),
]  # fmt: skip
Csv = Annotated[bool, option("--csv", help="Print CSV instead of a table.", panel=OUTPUT)]
Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A bundled model's Hub name, a config.json, or its folder.",
        autocompletion=completion.MODEL,
    ),
]
PlanFile = Annotated[
    Path,
    typer.Argument(
        metavar="PLAN.json",
        help="What `shardwise solve --json` printed; - for standard input.",
        autocompletion=completion.PLAN,
    ),
]
GpuName = Annotated[str, option("--gpu", help="GPU type, as in `shardwise catalog gpus`.", metavar="NAME")]
Tp = Annotated[Text, option("--tp", help="Tensor parallel size.", metavar="N", default="1")]
Pp = Annotated[Text, option("--pp", help="Pipeline stages.", metavar="N", default="1")]
Ep = Annotated[Text, option("--ep", help="Expert parallel size: 1, or all GPUs of a stage.", metavar="N", default="1")]
AttentionDp = Annotated[Text, option("--attention-dp", help="Attention-DP ranks.", metavar="N", default="1")]
Weights = Annotated[
    Text,
    option("--weights", help="bf16, fp8, int8, int4 and so on.", metavar="FORMAT", default="the checkpoint's own"),
]
KvCache = Annotated[
    Text, option("--kv-cache", help="bf16, fp16, fp8.", metavar="DTYPE", default="the checkpoint's own")
]
Policy = Annotated[
    Text,
    option("--memory-policy", help="framework or engine.", metavar="NAME", default="framework", panel=MEMORY),
]
Headroom = Annotated[
    Text,
    option("--headroom", help="framework: share of memory kept free.", metavar="SHARE", default="0.20", panel=MEMORY),
]
Overhead = Annotated[
    Text,
    option("--overhead", help="framework: added to weights and KV.", metavar="SHARE", default="0.15", panel=MEMORY),
]
Utilization = Annotated[
    Text,
    option(
        "--gpu-memory-utilization", help="engine: its memory fraction.", metavar="SHARE", default="0.90", panel=MEMORY
    ),
]
Engine = Annotated[
    Text,
    option(
        "--engine", help="engine: vllm, sglang or trtllm, or of a version as in vllm@0.19.", metavar="NAME",
        default="vllm", panel=MEMORY,
    ),
]  # fmt: skip
OutCsv = Annotated[
    Path | None,
    option("--out", help="Write the rows with the predictions added.", metavar="OUT.csv", panel=OUTPUT),
]
OffersFile = Annotated[
    list[Path] | None, option("--offers-file", help="CSV of your own offers.", metavar="FILE", panel=PRICES)
]
AsOf = Annotated[
    Text, option("--as-of", help="Day whose prices count.", metavar="DATE", default="newest", panel=PRICES)
]


Performance = Annotated[
    Text,
    option(
        "--performance", help="roofline, aiconfigurator or auto (SHARDWISE_PERFORMANCE).", metavar="BACKEND",
        default="roofline", panel=SPEED,
    ),
]  # fmt: skip
PerformanceTable = Annotated[
    Path | None,
    option("--performance-table", help="CSV of your own measured steps; it comes first.", metavar="FILE", panel=SPEED),
]


def traffic(name: str, help: str, metavar: str = "N", default: str | None = None) -> Any:  # noqa: A002
    """Describe a flag of the traffic."""
    return option(name, help=help, metavar=metavar, default=default, panel=TRAFFIC)


def target(name: str, help: str) -> Any:  # noqa: A002
    """Describe a latency target, in milliseconds."""
    return option(name, help=help, metavar="MS", panel=TARGETS)


def limit(name: str, help: str, metavar: str = "NAME", default: str | None = None) -> Any:  # noqa: A002
    """Describe a flag of what is allowed."""
    return option(name, help=help, metavar=metavar, default=default, panel=LIMITS)


BENCHMARK, SERVER, KEPT = "Benchmark", "The server, where the file does not say", "Runs that are kept"


def server(name: str, help: str, metavar: str = "N", default: str | None = None) -> Any:  # noqa: A002
    """Describe a flag of the server that a benchmark ran on."""
    return option(name, help=help, metavar=metavar, default=default, panel=SERVER)


Match = Annotated[Text, option("--match", help="Only names that hold this text.", metavar="TEXT")]
OfProvider = Annotated[Text, option("--provider", help="Only this provider.", metavar="NAME")]
OfGpu = Annotated[Text, option("--gpu", help="Only this GPU type.", metavar="NAME")]
