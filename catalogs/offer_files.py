"""Price files: the bundled ones in the project's schema, and the user's own CSV. Every bad row is named."""

from __future__ import annotations

import csv
import io
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pandas as pd

from catalogs.errors import DataFileError, near_matches
from catalogs.gpus import load_gpus
from catalogs.nodes import Fabric, Network, Node, default_fabric, load_nodes
from catalogs.providers import ProviderKind

Term = Literal["on-demand", "spot", "reserved-1y", "reserved-3y", "owned"]

TERMS: tuple[Term, ...] = get_args(Term)
KINDS: tuple[ProviderKind, ...] = get_args(ProviderKind)

# Columns of a bundled price file. Fabric and network are facts of the node, joined on loading.
PRICE_COLUMNS = (
    "provider",
    "provider_kind",
    "region",
    "instance_type",
    "gpu",
    "gpus_per_node",
    "term",
    "price_usd_per_node_hour",
    "max_nodes",
    "seen_on",
)
NODE_FACTS = ("fabric", "scale_up_gpus", "network", "network_gbit_per_s")
KEY = ["provider", "region", "instance_type", "term"]
_MACHINE = ("provider", "instance_type", "gpu", "gpus_per_node")

# Published prices below or above this have always been mistakes: bid floors, cents, whole-term totals (2026-08-22).
MIN_USD_PER_GPU_HOUR = 0.03
MAX_USD_PER_GPU_HOUR = 150.0

MAX_FILE_BYTES = 200_000_000
MAX_LINE_CHARACTERS = 20_000
MAX_TEXT_CHARACTERS = 200
MAX_GPUS_PER_NODE = 4_096
MAX_USD_PER_NODE_HOUR = 1e6

_UNJOINED = ("single", "pcie")
_PER_NODE = "price_usd_per_node_hour"
_PER_GPU = "price_usd_per_gpu_hour"
_OWN_COLUMNS = (*PRICE_COLUMNS, _PER_GPU, *NODE_FACTS)
# A name starts with a letter or digit, so that no spreadsheet takes it for a formula.
_NAME = re.compile(r"[^\W_][^\x00-\x1f\x7f]*")


def read_price_files(files: Sequence[tuple[str, Path]]) -> pd.DataFrame:
    """Read bundled price files, given as (source, path), into one frame of PRICE_COLUMNS and source.

    Raises:
        DataFileError: a file is not a price file; every bad row is named.
    """
    rows: list[list[str]] = []
    sources: list[str] = []
    ends: list[int] = []
    for source, path in files:
        rows += _price_rows(path)
        sources += [source] * (len(rows) - len(sources))
        ends.append(len(rows))
    columns = (
        dict(zip(PRICE_COLUMNS, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(PRICE_COLUMNS, ())
    )
    text = pd.DataFrame({name: list(cells) for name, cells in columns.items()}, dtype=str).assign(source=sources)
    frame = text.assign(
        gpus_per_node=pd.to_numeric(text["gpus_per_node"], errors="coerce").fillna(0).astype("int64"),
        price_usd_per_node_hour=pd.to_numeric(text["price_usd_per_node_hour"], errors="coerce").astype(float),
        max_nodes=pd.to_numeric(text["max_nodes"], errors="coerce").astype(float),
        seen_on=pd.to_datetime(text["seen_on"], format="%Y-%m-%d", errors="coerce"),
    )
    usd_per_gpu_hour = frame["price_usd_per_node_hour"] / frame["gpus_per_node"].clip(lower=1)
    expected = {
        "gpus_per_node": frame["gpus_per_node"] >= 1,
        "price_usd_per_node_hour": usd_per_gpu_hour.between(MIN_USD_PER_GPU_HOUR, MAX_USD_PER_GPU_HOUR),
        "term": frame["term"].isin(TERMS),
        "provider_kind": frame["provider_kind"].isin(KINDS),
        "gpu": frame["gpu"].isin(set(load_gpus())),
        "seen_on": frame["seen_on"].notna(),
    }
    problems: dict[Path, list[str]] = {}
    for field, fits in expected.items():
        for row in np.flatnonzero(~fits.to_numpy()):
            which = bisect_right(ends, row)
            line = row - (ends[which - 1] if which else 0) + 2
            problems.setdefault(files[which][1], []).append(f"line {line}.{field}: got {text[field].iloc[row]!r}")
    for path, found in problems.items():
        raise DataFileError(path, found)
    return frame


def _price_rows(path: Path) -> list[list[str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file, strict=True)
    except (OSError, ValueError, csv.Error) as error:
        raise DataFileError(path, [f"cannot be read: {error}"]) from error
    if tuple(header) != PRICE_COLUMNS:
        raise DataFileError(path, [f"columns are {','.join(header)}, expected {','.join(PRICE_COLUMNS)}"])
    ragged = [f"line {line}: has {len(row)} cells" for line, row in enumerate(rows, start=2) if len(row) != len(header)]
    if ragged:
        raise DataFileError(path, ragged)
    return rows


def read_set_aside(path: Path) -> dict[str, int]:
    """Read how many rows of a look were left out, by reason; {} when nothing was written."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["reason"]: int(row["rows"]) for row in csv.DictReader(file)}


def with_node_facts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with NODE_FACTS of each machine: from the node table, else what its GPU and count imply.

    Raises:
        KeyError: a GPU is not in the catalog.
    """
    machines = list(zip(*(frame[name].tolist() for name in _MACHINE), strict=True))
    facts = {machine: _facts(*machine) for machine in set(machines)}
    columns = zip(*(facts[machine] for machine in machines), strict=True) if machines else [()] * len(NODE_FACTS)
    return frame.assign(**{name: list(column) for name, column in zip(NODE_FACTS, columns, strict=True)})


def _facts(provider: str, instance_type: str, gpu: str, gpus_per_node: int) -> tuple[Fabric, int, Network, float]:
    node = load_nodes().get((provider, instance_type))
    if node is not None and (node.gpu, node.gpus_per_node) == (gpu, gpus_per_node):
        gbit_per_s = float("nan") if node.network_gbit_per_s is None else node.network_gbit_per_s
        return node.fabric, node.scale_up_gpus, node.network, gbit_per_s
    fabric, scale_up_gpus = default_fabric(load_gpus()[gpu], int(gpus_per_node))
    return fabric, scale_up_gpus, "unknown", float("nan")


def read_own_offers(path: Path, today: date) -> pd.DataFrame:
    """Read a CSV of the user's own offers into PRICE_COLUMNS and NODE_FACTS.

    Needed: provider; instance_type of a bundled node, or gpu and gpus_per_node; price_usd_per_node_hour or
    price_usd_per_gpu_hour. Optional: provider_kind (own), region (global), term (on-demand), fabric, scale_up_gpus,
    network (unknown), network_gbit_per_s, max_nodes, seen_on (today).

    Raises:
        DataFileError: the file or any of its rows is not usable; every problem with its line, field and value.
    """
    return _OwnOffers(path, _read_text_columns(path), today).frame()


def _read_text_columns(path: Path) -> pd.DataFrame:
    """Read a CSV as text, every column a string, the index the line in the file."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise DataFileError(path, [f"is larger than {MAX_FILE_BYTES / 1e6:g} MB"])
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataFileError(path, [f"cannot be read: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise DataFileError(
            path, [f"is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}"]
        ) from error
    if "\x00" in text:
        raise DataFileError(path, ["is not text: it holds NUL characters"])
    if not text.strip():
        raise DataFileError(path, ["is empty; expected a header and at least one offer"])
    longest = max(map(len, text.splitlines()))
    if longest > MAX_LINE_CHARACTERS:
        raise DataFileError(path, [f"has a line of {longest} characters; expected at most {MAX_LINE_CHARACTERS}"])
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise DataFileError(path, [f"is not a CSV table: line {reader.line_num}: {error}"]) from error
    (_, header), *rows = rows
    if not rows:
        raise DataFileError(path, ["has a header but no offer"])
    ragged = [
        f"line {line}: has {len(row)} cells, the header has {len(header)}"
        for line, row in rows
        if len(row) != len(header)
    ]
    if ragged:
        raise DataFileError(path, ragged)
    frame = pd.DataFrame([row for _, row in rows], columns=[column.strip().lower() for column in header], dtype=str)
    return frame.set_index(pd.Index([line for line, _ in rows], name="line"))


class _OwnOffers:
    """Checks and completes one user file; each method handles some columns and notes what is wrong with them."""

    def __init__(self, path: Path, table: pd.DataFrame, today: date):
        self._path = path
        self._today = today
        self._problems: list[str] = []
        self._check_columns(table)
        self._text = {column: table[column].str.strip() for column in table.columns}
        self._index = table.index

    def frame(self) -> pd.DataFrame:
        """Return the offers. Raises DataFileError with every problem of every row."""
        columns: dict[str, pd.Series] = {}
        columns["provider"] = self._names("provider", needed=True)
        columns["provider_kind"] = self._choices("provider_kind", KINDS, "own")
        columns["region"] = self._names("region", default="global")
        columns["term"] = self._choices("term", TERMS, "on-demand")
        nodes = self._bundled_nodes(columns["provider"])
        columns["gpu"] = self._gpus(nodes)
        columns["gpus_per_node"] = self._counts(nodes)
        columns["instance_type"] = self._instance_types(columns)
        columns[_PER_NODE] = self._prices(columns["gpus_per_node"])
        columns["max_nodes"] = self._numbers("max_nodes", at_least=1)
        columns["seen_on"] = self._dates()
        self._check_repeats(columns)
        self._raise_problems()
        frame = with_node_facts(pd.DataFrame(columns)[list(PRICE_COLUMNS)])
        self._state_node_facts(frame)
        self._raise_problems()
        return frame.reset_index(drop=True)

    def _check_columns(self, table: pd.DataFrame) -> None:
        given = list(table.columns)
        problems = [f"column {name!r} stands twice" for name in sorted({n for n in given if given.count(n) > 1})]
        for name in given:
            if name not in _OWN_COLUMNS:
                near = near_matches(name, _OWN_COLUMNS)
                problems.append(f"unknown column {name!r}" + (f"; did you mean {' or '.join(near)}?" if near else ""))
        if "provider" not in given:
            problems.append("misses column provider")
        if "instance_type" not in given and not {"gpu", "gpus_per_node"} <= set(given):
            problems.append("misses column instance_type, or both gpu and gpus_per_node")
        if _PER_NODE not in given and _PER_GPU not in given:
            problems.append(f"misses column {_PER_NODE} or {_PER_GPU}")
        if problems:
            raise DataFileError(self._path, [*problems, f"columns that are read: {', '.join(_OWN_COLUMNS)}"])

    def _raise_problems(self) -> None:
        if self._problems:
            raise DataFileError(self._path, self._problems)

    def _note(self, bad: pd.Series, field: str, expected: str | Callable[[str], str]) -> None:
        """Note a problem for every row where `bad` holds."""
        values = self._column(field)
        for row in np.flatnonzero(bad.to_numpy()):
            value = values.iloc[row][:60]
            text = expected if isinstance(expected, str) else expected(value)
            self._problems.append(f"line {self._index[int(row)]}.{field}: {text}, got {value!r}")

    def _column(self, field: str) -> pd.Series:
        return self._text.get(field, pd.Series("", index=self._index, dtype=str))

    def _names(self, field: str, *, default: str = "", needed: bool = False) -> pd.Series:
        text = self._column(field)
        wrong = ~text.str.fullmatch(_NAME.pattern) | (text.str.len() > MAX_TEXT_CHARACTERS)
        if not needed:
            wrong &= text != ""
        self._note(
            wrong,
            field,
            f"expected a name of at most {MAX_TEXT_CHARACTERS} characters, starting with a letter or digit",
        )
        return text.where(text != "", default)

    def _choices(self, field: str, allowed: tuple[str, ...], default: str) -> pd.Series:
        text = self._column(field).str.lower()
        self._note((text != "") & ~text.isin(allowed), field, f"expected one of {', '.join(allowed)}")
        return text.where(text != "", default)

    def _numbers(self, field: str, *, at_least: float = 0.0, above: bool = False, at_most: float = np.inf) -> pd.Series:
        """Read numbers; empty cells are NaN. `above` asks for more than `at_least`."""
        text = self._column(field)
        numbers = pd.to_numeric(text.where(text != "", "nan"), errors="coerce").astype(float)
        fits = (numbers > at_least if above else numbers >= at_least) & (numbers <= at_most) & np.isfinite(numbers)
        limit = f"{'above' if above else 'of at least'} {at_least:g}" + (
            f" and at most {at_most:g}" if at_most < np.inf else ""
        )
        self._note((text != "") & ~fits, field, f"expected a number {limit}")
        return numbers

    def _bundled_nodes(self, provider: pd.Series) -> list[Node | None]:
        """Return the bundled node that each row names by provider and instance type."""
        bundled = load_nodes()
        pairs = zip(provider.tolist(), self._column("instance_type").tolist(), strict=True)
        return [bundled.get(pair) for pair in pairs]

    def _gpus(self, nodes: Iterable[Node | None]) -> pd.Series:
        text = self._column("gpu")
        by_lower = {name.lower(): name for name in load_gpus()}
        canonical: Mapping[str, str | None] = {name: by_lower.get(name.lower()) for name in text.unique()}
        of_node = pd.Series([node.gpu if node else "" for node in nodes], index=self._index, dtype=str)
        named = text.map(lambda name: canonical[name] or "")

        def unknown(name: str) -> str:
            near = near_matches(name, load_gpus())
            return "unknown GPU" + (f"; did you mean {' or '.join(near)}?" if near else "")

        self._note((text != "") & (named == ""), "gpu", unknown)
        self._note(
            (text == "") & (of_node == ""), "gpu", "expected a GPU, because the instance_type is not a bundled node"
        )
        self._note((named != "") & (of_node != "") & (named != of_node), "gpu", "is not the GPU of this instance_type")
        return of_node.where(of_node != "", named)

    def _counts(self, nodes: Iterable[Node | None]) -> pd.Series:
        numbers = self._numbers("gpus_per_node", at_least=1, at_most=MAX_GPUS_PER_NODE)
        of_node = pd.Series([node.gpus_per_node if node else np.nan for node in nodes], index=self._index, dtype=float)
        missing = numbers.isna() & (self._column("gpus_per_node") == "") & of_node.isna()
        self._note(missing, "gpus_per_node", "expected a count, because the instance_type is not a bundled node")
        self._note(numbers.notna() & (numbers % 1 != 0), "gpus_per_node", "expected a whole number")
        wrong = numbers.notna() & of_node.notna() & (numbers != of_node)
        self._note(wrong, "gpus_per_node", "is not the count of this instance_type")
        counts = of_node.where(of_node.notna(), numbers)
        return counts.where(counts.between(1, MAX_GPUS_PER_NODE), 1).astype("int64")

    def _instance_types(self, columns: Mapping[str, pd.Series]) -> pd.Series:
        named = self._names("instance_type")
        by_count = columns["gpus_per_node"].astype(str) + "x " + columns["gpu"]
        return named.where(named != "", by_count)

    def _prices(self, gpus_per_node: pd.Series) -> pd.Series:
        per_node = self._numbers(_PER_NODE, above=True, at_most=MAX_USD_PER_NODE_HOUR)
        per_gpu = self._numbers(_PER_GPU, above=True, at_most=MAX_USD_PER_NODE_HOUR)
        field = _PER_NODE if _PER_NODE in self._text else _PER_GPU
        missing = (self._column(_PER_NODE) == "") & (self._column(_PER_GPU) == "")
        self._note(missing, field, "expected a price: a missing price is not zero")
        disagree = (per_node - per_gpu * gpus_per_node).abs() > 0.01 * per_node
        self._note(disagree, _PER_GPU, "is not price_usd_per_node_hour / gpus_per_node")
        return per_node.where(per_node.notna(), per_gpu * gpus_per_node)

    def _dates(self) -> pd.Series:
        text = self._column("seen_on")
        dates = pd.to_datetime(text.where(text != "", self._today.isoformat()), format="%Y-%m-%d", errors="coerce")
        self._note(dates.isna() | (dates > pd.Timestamp(self._today)), "seen_on", "expected a past day as YYYY-MM-DD")
        return dates

    def _check_repeats(self, columns: Mapping[str, pd.Series]) -> None:
        first: dict[tuple[str, ...], int] = {}
        for line, key in zip(
            self._index.tolist(), zip(*(columns[name].tolist() for name in KEY), strict=True), strict=True
        ):
            if first.setdefault(key, line) != line:
                self._problems.append(f"line {line}: the same offer as line {first[key]} ({' '.join(key)})")

    def _state_node_facts(self, frame: pd.DataFrame) -> None:
        """Put the fabric and network that the file states in place of those implied."""
        fabric = self._choices("fabric", get_args(Fabric), "")
        network = self._choices("network", get_args(Network), "")
        domain = self._numbers("scale_up_gpus", at_least=1, at_most=MAX_GPUS_PER_NODE)
        gbit_per_s = self._numbers("network_gbit_per_s", above=True, at_most=1e6)

        implied = frame["scale_up_gpus"].where((fabric == "") | (fabric == frame["fabric"]))
        implied = implied.where(implied.notna() | (fabric != "nvlink_bridge"), 2)
        implied = implied.where(implied.notna() | ~fabric.isin(_UNJOINED), 1).fillna(frame["gpus_per_node"])
        frame["scale_up_gpus"] = domain.where(domain.notna(), implied).astype("int64")
        frame["fabric"] = frame["fabric"].where(fabric == "", fabric)
        frame["network_gbit_per_s"] = frame["network_gbit_per_s"].where(network == "").fillna(gbit_per_s)
        frame["network"] = frame["network"].where(network == "", network)

        alone = (frame["fabric"] == "single") != (frame["gpus_per_node"] == 1)
        self._note(alone, "fabric", "expected 'single' exactly where gpus_per_node is 1")
        unjoined = frame["fabric"].isin(_UNJOINED)
        wrong = (unjoined != (frame["scale_up_gpus"] == 1)) | (frame["gpus_per_node"] % frame["scale_up_gpus"] != 0)
        self._note(wrong & ~alone, "scale_up_gpus", "expected a divisor of gpus_per_node, 1 only for single and pcie")
        rate_of_nothing = (frame["network"] == "unknown") & gbit_per_s.notna()
        self._note(rate_of_nothing, "network_gbit_per_s", "expected a network beside it")
