"""Drawings of answers as SVG, each a pure function from records to text; no plotting library is needed.

Colours are CSS variables (see `colours`), so that one drawing reads in light and dark and a page can set its own.
"""

from optimizer.report.drawings.colours import colours_css
from optimizer.report.drawings.costs import Bar, draw_costs
from optimizer.report.drawings.latency import draw_latency
from optimizer.report.drawings.layout import draw_fleet_nodes, draw_layout
from optimizer.report.drawings.memory import draw_memory

__all__ = ["Bar", "colours_css", "draw_costs", "draw_fleet_nodes", "draw_latency", "draw_layout", "draw_memory"]
