"""`shardwise report`: a plan as one page of HTML to send to people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optimizer.cli_options import PlanFile, option
from optimizer.commands.common import EPILOG, print_utf8

ENDINGS = (".html", ".htm")


def register(app: typer.Typer) -> None:
    """Add the command to the others."""
    app.command("report", epilog=EPILOG)(report)


def report(
    plan: PlanFile,
    out: Annotated[
        Path, option("-o", "--out", help="The page to write; - for standard output.", metavar="REPORT.html")
    ],
) -> None:
    """Write a plan, of one layout or of a fleet, as one page of HTML that opens anywhere and prints on A4.

    The answer in a sentence, its cost, what was asked, drawings of layout, memory and latency, alternatives, prices
    with dates, assumptions, the proof, and how to get it again. The page asks for nothing and runs no script.
    """
    from optimizer.errors import QuestionError  # noqa: PLC0415

    to_stdout = str(out) == "-"
    if not to_stdout and out.suffix.lower() not in ENDINGS:
        raise QuestionError(f"--out {out}: expected a file that ends in {' or '.join(ENDINGS)}, or -")
    from optimizer.export.plans import read_plan_of  # noqa: PLC0415
    from optimizer.report.document import report_html  # noqa: PLC0415
    from optimizer.user_files import write_whole  # noqa: PLC0415

    page = report_html(read_plan_of(str(plan)))
    if to_stdout:
        print_utf8(page)
        return
    try:
        write_whole(out, page, private=False)
    except OSError as error:
        raise QuestionError(f"--out {out}: cannot be written: {error.strerror or error}") from None
    typer.echo(out)
