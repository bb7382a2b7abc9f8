"""A plan as one page of HTML: `shardwise report`. It holds all it needs, asks for nothing and runs no script."""

from optimizer.report.document.render import report_html, report_title

__all__ = ["report_html", "report_title"]
