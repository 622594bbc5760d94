"""Rows in the format of the Berkeley Function Calling Leaderboard (BFCL), written for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.dataset_reading import write

WEATHER: dict[str, Any] = {
    "name": "weather.get",
    "description": "Get the weather.",
    "parameters": {
        "type": "dict",
        "properties": {
            "city": {"type": "string", "description": "City and country."},
            "days": {"type": "integer", "description": "Number of days.", "default": 1},
            "limit": {"type": "float", "description": "Lowest temperature."},
            "hours": {"type": "array", "items": {"type": "integer"}, "description": "Hours of the day."},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "Words."},
            "unit": {"type": "string", "enum": ["celsius", "kelvin"], "description": "Unit.", "default": None},
        },
        "required": ["city"],
    },
}
BOOK: dict[str, Any] = {
    "name": "book",
    "description": "Book a table.",
    "parameters": {
        "type": "dict",
        "properties": {
            "guest": {
                "type": "dict",
                "properties": {"name": {"type": "string"}, "seats": {"type": "integer"}},
                "description": "The guest.",
            },
            "dishes": {
                "type": "array",
                "items": {"type": "dict", "properties": {"dish": {"type": "string"}, "count": {"type": "integer"}}},
                "description": "The dishes.",
            },
            "place": {"type": "tuple", "items": {"type": "float"}, "description": "Latitude and longitude."},
            "note": {"type": "any", "description": "A note.", "optional": True},
        },
        "required": ["guest"],
    },
}
OSLO = {"city": ["Oslo, Norway", "Oslo"], "days": [3, ""], "limit": [5.0, ""], "unit": ["celsius", ""]}
ROME = {"city": ["Rome"], "tags": [["Hot day", "Dry"], ""], "hours": [[8, 20], ""]}
GUEST = {
    "guest": [{"name": ["Ann Lee"], "seats": [2, ""]}],
    "dishes": [[{"dish": ["Soup"], "count": [2]}, {"dish": ["Cake"], "count": [1, ""]}], ""],
    "place": [[59.9, 10.7], ""],
    "note": ["", "By the window"],
}
#: Category, functions and acceptable calls of each row; None if the category has no file of answers.
ROWS: list[tuple[str, list[dict[str, Any]], list[dict[str, Any]] | None]] = [
    ("simple_python", [WEATHER], [{"weather.get": OSLO}]),
    ("simple_python", [WEATHER], [{"weather.get": ROME}]),
    ("simple_python", [BOOK], [{"book": GUEST}]),
    ("multiple", [BOOK, WEATHER], [{"weather.get": OSLO}]),
    ("parallel", [WEATHER], [{"weather.get": OSLO}, {"weather.get": ROME}]),
    ("live_parallel_multiple", [WEATHER, BOOK], [{"weather.get": ROME}, {"book": GUEST}]),
    ("irrelevance", [BOOK], None),
    ("live_relevance", [BOOK, WEATHER], None),
]


def write_suite(root: Path, rows: list[tuple[str, list[dict[str, Any]], Any]] = ROWS) -> Path:
    """Write the files of questions and answers; the id of a row is its category and its number in the category."""
    questions: dict[str, list[dict[str, Any]]] = {}
    answers: dict[str, list[dict[str, Any]]] = {}
    for category, functions, truth in rows:
        of_category = questions.setdefault(category, [])
        name = f"{category}_{len(of_category)}"
        turn = [{"role": "user", "content": f"Question {name}?"}]
        of_category.append({"id": name, "question": [turn], "function": functions})
        if truth is not None:
            answers.setdefault(category, []).append({"id": name, "ground_truth": truth})
    files = {f"BFCL_v4_{category}.json": _lines(each) for category, each in questions.items()}
    return write(root, files | {f"possible_answer/BFCL_v4_{name}.json": _lines(each) for name, each in answers.items()})


def _lines(rows: list[dict[str, Any]]) -> str:
    return "\n".join(map(json.dumps, rows))
