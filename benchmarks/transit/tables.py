"""Table of what clients make of the schemas of twenty types, from the stored results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from benchmarks.pages import ROOT

PAGE = ROOT / "docs" / "schemas-in-transit.md"
PART = "transit"
RESULTS = Path(__file__).with_name("results.json")
#: Keywords that no answer can violate, and those among them that tell a model what is asked.
_ANNOTATIONS = ("default", "description", "examples", "title", "discriminator", "$schema")
_TELLING = ("default", "description")
#: Relations that are shown in bold, with the lost keywords.
_LOOSER = ("wider", "different", "absent")
_STRICT = {True: "true", False: "false", None: "not sent"}


class Results(TypedDict):
    """What was measured, when, and with which versions."""

    #: Day of the measurement in ISO 8601.
    measured: str
    #: Version of each distribution, by name.
    versions: Mapping[str, str]
    #: For each client and type, the fields of a SchemaInTransit, or the client's error.
    sent: Mapping[str, Mapping[str, Mapping[str, Any]]]


def show_cell(found: Mapping[str, Any]) -> str:
    """Return the relation of a schema, and the keywords that the client lost or changed."""
    if "relation" not in found:
        return f"raises `{found['error']}`" if found["error"] else "not sent"
    relation = found["relation"]
    lost = dict.fromkeys(each["keyword"] for each in found.get("differences", ()) if each["kind"] != "added")
    named = [keyword for keyword in lost if keyword not in (*_ANNOTATIONS, "required")]
    if relation not in _LOOSER:  # other keywords were only replaced by stricter ones
        named = [keyword for keyword in named if keyword == "additionalProperties"]
    named += [keyword for keyword in lost if keyword in _TELLING]
    shown = f"**{relation}**" if relation in _LOOSER else relation
    return f"{shown}: {', '.join(f'`{keyword}`' for keyword in named)}" if named else shown


def _strict_of(cells: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the values of `strict` that a client sends, the most frequent first."""
    given = Counter(found.get("strict") for found in cells.values() if "relation" in found)
    return ", ".join(f"{_STRICT[value]} ({count})" for value, count in given.most_common())


def table(results: Results) -> str:
    """Return the versions and the table in Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    clients = list(results["sent"])
    lines = [["type", *clients], ["---"] * (len(clients) + 1)]
    for title in results["sent"][clients[0]]:
        cells = [show_cell(results["sent"][client][title]) for client in clients]
        lines.append([title.replace("|", r"\|"), *cells])
    lines.append(["`strict` (types)", *(_strict_of(results["sent"][client]) for client in clients)])
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"Measured on {results['measured']} ({versions}).\n\n{rows}"
