"""Make texts of a run's outputs that a person can review, without what differs from run to run."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

#: What differs from run to run, with its replacement.
VARYING = (
    (r"\b20\d{6}T\d{6}Z-", "RUN-"),
    (r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d| UTC)?", "TIME"),
    (r"=+ (.* in )\d+\.\d\ds( \(.*\))? =+", r"= \1SECONDS ="),
    (r"hmac-sha256:[0-9a-f]+", "hmac-sha256:DIGEST"),
)
#: Members of JSON objects that differ from run to run, from machine to machine and with each installed package.
VARYING_MEMBERS = {"uuid", "versions", "host", "queue_mean", "queue_max"}
VARYING_PROPERTY = r"jsbench\.(variants\.\w+\.)?(queue_(s|mean|max|p\d+)|tgt_s)"
LATER_HEADINGS = {"FAILURES", "short test summary info"}
#: Elements of a page that do not end a line of text.
INLINE = "a|b|code|em|i|small|span|strong|sub|sup|td|th"


def without_times(text: str) -> str:
    """Replace the times, ids and digests of a run that was just made."""
    for pattern, replacement in VARYING:
        text = re.sub(pattern, replacement, text)
    return text


def text_of_terminal(result: pytest.RunResult) -> str:
    """Return the lines of the header that the plugin writes, and all lines from the failures on."""
    lines = result.outlines
    start = next(at for at, line in enumerate(lines) if line.startswith("=") and line.strip("= ") in LATER_HEADINGS)
    header = [line for line in lines[:start] if line.startswith("jsbench: ")]
    return "\n".join([*header, "", *lines[start:]])


def text_of_page(page: str) -> str:
    """Return the visible text of a page, a line for each element that starts one."""
    body = re.sub(r"(?s)<(script|style|svg)\b.*?</\1>", "", page.partition("<body")[2].partition(">")[2])
    joined = re.sub(rf"</?({INLINE})\b[^>]*>", " ", " ".join(body.split()))
    lines = (" ".join(html.unescape(line).split()) for line in re.split(r"<[^>]*>", joined))
    return "\n".join(line for line in lines if line)


def text_of_junit(path: Path) -> str:
    """Return pytest's XML file with an element on each line, without its times and the machine's name."""
    suite = ET.parse(path).getroot()[0]
    for element in suite.iter():
        for name in ("time", "timestamp", "hostname"):
            element.attrib.pop(name, None)
        if re.fullmatch(VARYING_PROPERTY, element.get("name", "")):
            element.set("value", "VARIES")
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode")


def text_of_json(text: str) -> str:
    """Return a JSON document with its short arrays and objects on one line, and rounded numbers."""
    document = json.dumps(replace_varying(json.loads(text)), indent=1, ensure_ascii=False)
    for _ in range(2):
        document = re.sub(r"([\[{])\n([^\[\]{}]{,99})\n *([\]}])", join_lines, document)
    return document


def join_lines(match: re.Match[str]) -> str:
    opening, content, closing = match.groups()
    return opening + " ".join(line.strip() for line in content.splitlines()) + closing


def replace_varying(value: Any) -> Any:
    """Replace what differs from run to run; another version of Python may sum to another last digit."""
    match value:
        case dict():
            return {
                name: "VARIES"
                if name in VARYING_MEMBERS or re.fullmatch(r"queue_p\d+", name)
                else replace_varying(member)
                for name, member in value.items()
            }
        case list():
            return [replace_varying(element) for element in value]
        case float():
            return round(value, 9)
    return value
