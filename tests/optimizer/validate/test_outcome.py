"""optimizer.validate: thresholds over all reports, the file that is written, and files that are no files of reports."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from catalogs.errors import CatalogError, DataFileError
from optimizer.errors import QuestionError
from optimizer.validate import Validation, print_validation, validate_file, write_predictions
from optimizer.validate.cases import PREDICTED, answer, observed_kv_tokens
from tests.optimizer.validate.reports import case, cases, report, write


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Validation:
    return validate_file(write(tmp_path_factory.mktemp("reports") / "cases.csv", [report(row) for row in cases()]))


def column(found: Validation, name: str) -> dict[str, float]:
    summary = next(one for one in found.columns if one.column == name)
    return {key: value for key, value in summary.model_dump().items() if isinstance(value, float | int)}


def test_weights_agree(found: Validation) -> None:
    """Weights are within 2% in 90% of the judged reports, of which there are at least 20."""
    weights = column(found, "weights_gib_per_gpu")
    assert weights["judged"] >= 20
    assert weights["within_2_percent"] >= 0.90


def test_kv_tokens_agree(found: Validation) -> None:
    """KV tokens are within 5% at the median and within 12% in 90% of the judged reports."""
    tokens = column(found, "kv_tokens")
    assert tokens["judged"] >= 14
    assert tokens["median_error"] <= 0.05
    assert tokens["within_12_percent"] >= 0.90


def test_concurrency_agrees(found: Validation) -> None:
    """The maximum concurrency is within 5% in every report that gives it with its length."""
    most = column(found, "max_concurrency")
    assert most["judged"] >= 7
    assert most["largest_error"] <= 0.05


def test_fits_agrees(found: Validation) -> None:
    """Whether it fits is right in at least 97% of the judged reports, and at least 65 are judged."""
    assert found.fits.judged >= 65
    assert found.fits.agreement is not None
    assert found.fits.agreement >= 0.97, found.fits.wrong


def test_what_stays_outside_is_listed_with_its_cause(found: Validation) -> None:
    """A judged figure is off by more than its limit only where the case file says why."""
    said = {row["case"] for row in cases() if row["outside"]}
    off = {
        row.case_id for row in found.rows if abs(row.weights_error or 0) > 0.02 or abs(row.kv_tokens_error or 0) > 0.12
    }
    assert off == said


def test_every_report_without_numbers_says_why(found: Validation) -> None:
    """A row without an answer has a cause; a row without weights that gave them has one too."""
    for row in found.rows:
        if not row.predicted_fits or (row.observed_weights_gib_per_gpu and row.weights_error is None):
            assert row.not_judged, row.case_id


def test_summary_is_printed(found: Validation) -> None:
    """The printed summary has the figures, the rows outside, and those not judged."""
    out = io.StringIO()
    print_validation(found, Console(file=out, width=120))
    text = out.getvalue()
    assert "KV tokens" in text
    assert "A06" in text
    assert "Not judged:" in text


class TestWritten:
    """The file with predictions beside the reports."""

    def test_columns_keep_their_order_and_text(self, tmp_path: Path) -> None:
        """Every cell comes back as it was, and the predicted columns follow."""
        rows = [{"note": "kept, as it is", **case("A22")}, {"note": "", **case("B01")}]
        path, out = write(tmp_path / "in.csv", rows), tmp_path / "out.csv"
        write_predictions(path, out, validate_file(path))
        with out.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            written = list(reader)
        assert tuple(reader.fieldnames or ()) == (*rows[0], *PREDICTED)
        assert [{name: row[name] for name in rows[0]} for row in written] == rows
        assert [row["predicted_fits"] for row in written] == ["yes", "no"]
        assert float(written[0]["predicted_weights_gib_per_gpu"]) == pytest.approx(14.96, abs=0.01)
        assert "heads_divisible" in written[1]["reason"]

    def test_a_place_that_cannot_be_written_leaves_nothing(self, tmp_path: Path) -> None:
        """A missing folder is an error with the flag's name; nothing is left beside."""
        path = write(tmp_path / "in.csv", [case("A22")])
        with pytest.raises(QuestionError, match="--out"):
            write_predictions(path, tmp_path / "no folder" / "out.csv", validate_file(path))
        assert sorted(tmp_path.iterdir()) == [path]

    def test_the_file_read_may_be_the_file_written(self, tmp_path: Path) -> None:
        """Writing over the input takes its place whole."""
        path = write(tmp_path / "in.csv", [case("A22")])
        write_predictions(path, path, validate_file(path))
        assert path.read_text(encoding="utf-8").splitlines()[0].endswith(",".join(PREDICTED))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("case_id,engine,model,gpu\n", "no row"),
        ("case_id,engin,model,gpu\n1,vLLM,m,g\n", "no column 'engine'; is it 'engin'"),
        ("case_id,engine,model,gpu,gpu\n1,a,b,c,d\n", "2 times"),
        ("case_id,engine,model,gpu\n1,vLLM\n", "line 2: 2 cells where the header has 4"),
        ("case_id,engine,model,gpu,reason\n1,a,b,c,d\n", "one that the output adds"),
        ('case_id,engine,model,gpu\n1,"a,b,c\n', "not CSV"),
        ("case_id,engine,model,gpu\n1,a\0,b,c\n", "NUL"),
    ],
)
def test_files_that_are_no_reports(tmp_path: Path, text: str, message: str) -> None:
    """Each fault is named with the file."""
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataFileError, match=message) as raised:
        validate_file(path)
    assert "bad.csv" in str(raised.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, a folder and bytes that are no text are one message each."""
    (tmp_path / "latin.csv").write_bytes(b"case_id,engine,model,gpu\n1,\xff\xfe,b,c\n")
    for path, message in ((tmp_path / "none.csv", "read"), (tmp_path, "regular"), (tmp_path / "latin.csv", "UTF-8")):
        with pytest.raises(DataFileError, match=message):
            validate_file(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("yes", "yes"),
        ("No (out of memory)", "no"),
        ("no (OOM in graph capture); yes with enforce_eager", "no"),
        ("yes at 512k, no at 1M", "yes"),
        ("no before / yes after", "depends"),
        ("", ""),
        ("notable", ""),
        ("maybe", ""),
    ],
)
def test_answers_are_read_as_they_begin(text: str, said: str) -> None:
    """What a report says first is what it says of its row; a change of version in it makes it depend."""
    assert answer(text) == said


def test_blocks_stand_in_for_tokens() -> None:
    """378 blocks of 16 are 6,048 tokens, where the report gives no tokens."""
    assert observed_kv_tokens({"kv_tokens": "", "gpu_blocks": "378", "block_size": "16"}) == 6048
    assert observed_kv_tokens({"kv_tokens": "1,000", "gpu_blocks": "378", "block_size": "16"}) == 1000


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_cells_are_answered(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever cells say, a file is validated or refused by name: no traceback, and each row answered or explained."""
    row = dict(data.draw(st.sampled_from([report(one) for one in cases()])))
    odd = st.one_of(
        st.text(max_size=30),
        st.integers().map(str),
        st.floats().map(str),
        st.sampled_from(["", "0", "-1", "1e9", "nan"]),
    )
    for name in data.draw(st.lists(st.sampled_from(sorted(row)), max_size=6)):
        row[name] = data.draw(odd)
    path = tmp_path / "fuzz.csv"
    try:
        write(path, [row])
        found = validate_file(path)
    except (CatalogError, UnicodeEncodeError):
        return
    (one,) = found.rows
    assert one.predicted_fits in ("yes", "no", "")
    assert one.predicted_fits or one.not_judged or one.kind not in "ab"
    assert one.predicted_weights_gib_per_gpu is None or 0 < one.predicted_weights_gib_per_gpu < 1e7
    write_predictions(path, tmp_path / "out.csv", found)


@given(st.binary(max_size=400))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    """A file of any bytes is refused by name or read."""
    path = tmp_path / "bytes.csv"
    path.write_bytes(content)
    message = ""
    try:
        validate_file(path)
    except DataFileError as error:
        message = str(error)
    assert not message or "bytes.csv" in message
