"""The colours of drawings: CSS variables with a value for light and one for dark grounds.

Categories are the colours of Okabe and Ito (Color Universal Design, 2008, https://jfly.uni-koeln.de/color/), which
people with any common colour blindness tell apart; nothing is said by colour alone. Those for dark grounds are the
same hues, lighter where needed.
"""

from __future__ import annotations

LIGHT = {
    "ink": "#1c2530",
    "muted": "#56616e",
    "line": "#9aa5b1",
    "panel": "#f3f5f8",
    "ground": "#ffffff",
    "good": "#00724f",
    "bad": "#b3261e",
    "c0": "#0072b2",
    "c1": "#d55e00",
    "c2": "#009e73",
    "c3": "#cc79a7",
    "c4": "#56b4e9",
    "c5": "#e69f00",
}
DARK = {
    "ink": "#e8edf2",
    "muted": "#a9b4c0",
    "line": "#67727e",
    "panel": "#212a34",
    "ground": "#151b22",
    "good": "#35c795",
    "bad": "#ff8a80",
    "c0": "#4da3dd",
    "c1": "#f07f2e",
    "c2": "#2fbf95",
    "c3": "#dd98bf",
    "c4": "#7cc7f2",
    "c5": "#f0b429",
}
CATEGORIES = 6


def colour(name: str) -> str:
    """Return a colour as SVG takes it: the variable, with its value on light grounds where nothing sets it."""
    return f"var(--sw-{name}, {LIGHT[name]})"


def category(number: int) -> str:
    """Return the colour of a category; after the last comes the first."""
    return colour(f"c{number % CATEGORIES}")


def colours_css(light: str = ":root", dark: str | None = None) -> str:
    """Return CSS that sets the variables.

    Args:
        light: selector of what they are set on.
        dark: selector of what the dark ones are set on; the reader's system decides when not given.
    """
    day, night = (";".join(f"--sw-{name}:{value}" for name, value in values.items()) for values in (LIGHT, DARK))
    if dark is not None:
        return f"{light}{{{day}}}{dark}{{{night}}}"
    return f"{light}{{{day}}}@media (prefers-color-scheme: dark){{{light}{{{night}}}}}"
