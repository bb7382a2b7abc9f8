"""From each list that is asked for to its rows."""

from __future__ import annotations

from datetime import date

from optimizer.plan import AnswerPart
from optimizer.questions import list_requests as ask
from optimizer.questions.facts import offers_on
from optimizer.questions.listed import Listed


def gpus(question: ask.GpusQuestion) -> AnswerPart:
    """List GPU types."""
    from optimizer.report import catalog  # noqa: PLC0415

    return Listed.of(catalog.gpus(question.match), question.offset, question.limit)


def models(question: ask.ModelsQuestion) -> AnswerPart:
    """List bundled models."""
    from optimizer.report import catalog  # noqa: PLC0415

    return Listed.of(catalog.models(question.match), question.offset, question.limit)


def nodes(question: ask.NodesQuestion) -> AnswerPart:
    """List node shapes."""
    from optimizer.report import catalog  # noqa: PLC0415

    found = catalog.nodes(question.match, question.provider, question.gpu)
    return Listed.of(found, question.offset, question.limit)


def offers(question: ask.OffersQuestion) -> AnswerPart:
    """List offers of a day."""
    from optimizer.report import catalog  # noqa: PLC0415

    table = offers_on(question.as_of, date.today())
    found = catalog.offers(
        question.match, question.provider, question.gpu, question.term, question.region, None, (), table=table
    )
    return Listed.of(found, question.offset, question.limit)


def prices(question: ask.PricesQuestion) -> AnswerPart:
    """List offers of a day by patterns."""
    from optimizer.report import prices as report  # noqa: PLC0415

    table = offers_on(question.as_of, date.today())
    found = report.offers(question.as_of, question.patterns, question.sort, table=table)
    return Listed.of(found, question.offset, question.limit)


def history(question: ask.HistoryQuestion) -> AnswerPart:
    """List periods in which prices stood."""
    from optimizer.report import prices as report  # noqa: PLC0415

    found, _ = report.periods(question.patterns, question.since, question.until, question.source)
    return Listed.of(found, question.offset, question.limit)


def diff(question: ask.DiffQuestion) -> AnswerPart:
    """List what changed between two days."""
    from optimizer.report import prices as report  # noqa: PLC0415

    found = report.changes(question.before, question.after, question.patterns)
    return Listed.of(found, question.offset, question.limit)


def sources(_: ask.SourcesQuestion) -> AnswerPart:
    """List the sources of the history."""
    from optimizer.report import prices as report  # noqa: PLC0415

    return Listed.of(report.sources(), 0, ask.MOST_ROWS)
