"""Draw the shapes of a picture in SVG, whose text stays text and is escaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from pytest_jsbench.core.text import printable, shorten
from pytest_jsbench.metrics.case_outcomes import PASSED, UNDECIDED
from pytest_jsbench.metrics.statistics import Rate

#: Width of a picture in user units, which are CSS pixels on a phone, so that its text is as large as the page's.
WIDTH = 340.0
#: Size of a cell in a matrix.
CELL = 13.0
#: Distance from a cell in a matrix to the next one.
STEP = 20.0
#: Height of a line of text.
LINE = 18.0
#: Space at both ends of a scale, for half a mark.
_MARGIN = 6.0
#: Height of a bar.
_BAR = 12.0
#: Height of a bar with the space below it.
_BAR_WITH_SPACE = 20.0
#: Estimated width of a character.
_CHARACTER = 6.6
#: Estimated width of a character of double width.
_WIDE_CHARACTER = 13.0
#: Width of bold text relative to other text.
_BOLD = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture as markup without script and style, with a title, a legend, and a description for screen readers."""

    title: str
    markup: str

    def __html__(self) -> str:
        """Return the markup for a template."""
        return self.markup


class Canvas:
    """
    The shapes of one picture, from top to bottom, and the description of what they show.

    Created by the function that draws the picture. Values on a scale are shares of its length, from 0 to 1.
    """

    def __init__(self) -> None:
        self._height = 0.0
        self._shapes: list[ET.Element] = []
        self._described: list[str] = []

    def picture(self, title: str, legend: str) -> Picture:
        """Return the picture; the legend explains its marks."""
        figure = ET.Element("figure", {"class": "picture"})
        caption = ET.SubElement(figure, "figcaption")
        _add_text(caption, "strong", title)
        _add_text(caption, "span", legend)
        box = f"0 0 {_number(WIDTH)} {_number(self._height + 2)}"
        svg = ET.SubElement(figure, "svg", {"viewBox": box, "role": "img"})
        _add_text(svg, "title", title)
        _add_text(svg, "desc", "; ".join(self._described))
        svg.extend(self._shapes)
        return Picture(title=title, markup=ET.tostring(figure, encoding="unicode"))

    def describe(self, text: str) -> None:
        """Add a text to the description."""
        self._described.append(text)

    def add_heading(self, text: str) -> None:
        """Add a line above several rows."""
        self._add_line(text, kind="total")
        self.describe(text)

    def add_row(self, name: str, value: str, *, total: bool = False) -> None:
        """Add a line with a name and a value; the shape that is added next belongs to this line."""
        self._add_line(name, room=WIDTH - _text_width(value) - 12, kind="total" if total else "name")
        self._height -= LINE
        self._add_line(value, x=WIDTH)
        self.describe(f"{name}: {value}")

    def add_count(self, share: float) -> None:
        """Add the bar of a count."""
        self._add_rectangle("track", 0, WIDTH)
        self._add_rectangle("fill", 0, max(1.0, WIDTH * share))
        self._height += _BAR_WITH_SPACE

    def add_rate(self, rate: Rate, floor: Rate | None) -> None:
        """Add the bar of a rate with its interval, and a mark for the floor."""
        self._add_rectangle("track", _at(0), _at(1) - _at(0))
        if rate.value is not None:
            self._add_rectangle("fill", _at(0), _at(rate.value) - _at(0))
        if rate.ci_low is not None and rate.ci_high is not None:
            self._add_interval(rate.ci_low, rate.ci_high)
        if floor is not None and floor.value is not None:
            self.describe(f"floor {floor.value:.2f}")
            x, bottom = _number(_at(floor.value)), _number(self._height + _BAR)
            self._add_path("floor", f"M{x} {bottom}l5 7h-10z")
        self._height += _BAR_WITH_SPACE

    def add_spread(self, low: float, first: float, middle: float, third: float, last: float) -> None:
        """Add a box from the first to the third quartile, on a line from a low to a high quantile."""
        centre = _number(self._height + _BAR / 2)
        self._add_path("whisker", f"M{_number(_at(low))} {centre}H{_number(_at(last))}")
        for end in (low, last):
            self._add_path("whisker", f"M{_number(_at(end))} {_number(self._height + 2)}v{_number(_BAR - 4)}")
        self._add_rectangle("box", _at(first), max(1.0, _at(third) - _at(first)))
        self._add_path("median", f"M{_number(_at(middle))} {_number(self._height - 2)}v{_number(_BAR + 4)}")
        self._height += _BAR_WITH_SPACE

    def add_difference(self, low: float, value: float, high: float, *, real: bool) -> None:
        """Add a difference with its interval, on a scale with 0 in the middle; if `real`, the mark is filled."""
        self._add_path("zero", f"M{_number(_at(0.5))} {_number(self._height)}v{_number(_BAR + 4)}")
        self._add_interval(low, high)
        centre = {"cx": _number(_at(value)), "cy": _number(self._height + _BAR / 2), "r": "5"}
        self._add("circle", "mark real" if real else "mark", **centre)
        self._height += _BAR_WITH_SPACE

    def add_scale(self, marks: Sequence[str]) -> None:
        """Add the labels of a scale at equal distances."""
        self._height += 4
        ends = {0: ("start", _at(0)), len(marks) - 1: ("end", _at(1))}
        for at, mark in enumerate(marks):
            anchor, x = ends.get(at, ("middle", _at(at / (len(marks) - 1))))
            self._add("text", "scale", x=_number(x), y=_number(self._height + 8), **{"text-anchor": anchor}).text = mark
        self._height += LINE

    def add_columns(self, heads: Sequence[str]) -> None:
        """Add the names of the columns of a matrix, each on its own line that leads to its column."""
        top = self._height + LINE * len(heads)
        places = _columns(len(heads))
        for head, x in zip(heads, places, strict=True):
            middle = self._height + LINE / 2
            shown = self._add_line(head, room=places[0] - 12)
            start = _number(_text_width(shown) + 8)
            self._add_path("lead", f"M{start} {_number(middle)}H{_number(x + CELL / 2)}V{_number(top)}")
        self._height += 4

    def add_outcomes(self, name: str, ends: Sequence[str]) -> None:
        """Add a row of a matrix: a cell for the outcome of a case, or of several cases, in each column."""
        self.describe(f"{name}: {', '.join(end or 'none' for end in ends)}")
        places = _columns(len(ends))
        for x, end in zip(places, ends, strict=True):
            self._add_outcome(end, x)
        self._add_line(name, room=places[0] - 8)
        self._height += STEP - LINE

    def _add_outcome(self, end: str, x: float) -> None:
        y = self._height + (STEP - CELL) / 2
        if not end or end in UNDECIDED:
            self._add_path("lead", f"M{_number(x + 3)} {_number(y + CELL / 2)}h{_number(CELL - 6)}")
            return
        kind = "fill" if end == PASSED else "cell"
        box = {"x": _number(x), "y": _number(y), "width": _number(CELL), "height": _number(CELL)}
        _add_text(self._add("rect", kind, **box), "title", end)
        if end == PASSED:
            return
        if end[:1].isdigit():  # the number of attempts that passed
            half = {"y": _number(y + CELL / 2), "height": _number(CELL / 2)}
            self._add("rect", "fill", **{**box, **half})
        else:
            inner = _number(CELL - 6)
            self._add_path("cross", f"M{_number(x + 3)} {_number(y + 3)}l{inner} {inner}m0 -{inner}l-{inner} {inner}")

    def _add_interval(self, low: float, high: float) -> None:
        """Add an interval, on a wider line that separates it from a bar of any colour."""
        start, end, centre = _number(_at(low)), _number(_at(high)), _number(self._height + _BAR / 2)
        caps = "".join(f"M{x} {_number(self._height + 2)}v{_number(_BAR - 4)}" for x in (start, end))
        for kind in ("halo", "whisker"):
            self._add_path(kind, f"M{start} {centre}H{end}{caps}")

    def _add_line(self, text: str, *, x: float = 0, room: float = WIDTH, kind: str = "name") -> str:
        """Add a line of text, shortened to fit, and return it; if `x` is the width, the text is right-aligned."""
        whole = printable(text, None)
        shown = _cut(whole, room / _BOLD if kind == "total" else room)
        anchor = {"text-anchor": "end"} if x == WIDTH else {}
        element = self._add("text", kind, x=_number(x), y=_number(self._height + 13), **anchor)
        element.text = shown
        if shown != whole:
            _add_text(element, "title", whole)
        self._height += LINE
        return shown

    def _add_rectangle(self, kind: str, x: float, width: float) -> None:
        box = {"x": x, "y": self._height, "width": width, "height": _BAR}
        self._add("rect", kind, **{name: _number(value) for name, value in box.items()})

    def _add_path(self, kind: str, path: str) -> None:
        self._add("path", kind, d=path)

    def _add(self, tag: str, kind: str, **attributes: str) -> ET.Element:
        element = ET.Element(tag, {"class": kind, **attributes})
        self._shapes.append(element)
        return element


def _add_text(parent: ET.Element, tag: str, text: str) -> None:
    ET.SubElement(parent, tag).text = printable(text, None)


def _at(share: float) -> float:
    """Return the x coordinate of a share on a scale."""
    return _MARGIN + (WIDTH - 2 * _MARGIN) * min(1.0, max(0.0, share))


def _columns(count: int) -> list[float]:
    """Return the x coordinates of the columns of a matrix."""
    return [WIDTH - STEP * (count - at) for at in range(count)]


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _text_width(text: str) -> float:
    return sum(_WIDE_CHARACTER if unicodedata.east_asian_width(one) in "WF" else _CHARACTER for one in text)


def _cut(text: str, room: float) -> str:
    """Return the text; if it is wider than `room`, its middle is replaced by an ellipsis."""
    shown = text if len(text) * _CHARACTER <= room else shorten(text, int(room / _CHARACTER))
    while len(shown) > 1 and _text_width(shown) > room:  # characters of double width need more space
        shown = shorten(text, len(shown) - 1)
    return shown
