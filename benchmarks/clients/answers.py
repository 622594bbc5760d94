"""Answers that clients read in different ways; imports nothing, because the clients' own environment reads it too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """An answer of a model.

    Attributes:
        title: Name of its row in the table.
        field: The only field of its type: `total` is an integer, `code` a string or an integer, `text` a string.
        text: The text that the model returned.
    """

    title: str
    field: str
    text: str


SCHEMAS: dict[str, dict[str, object]] = {
    "total": {"type": "integer"},
    "code": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    "text": {"type": "string"},
}

ANSWERS = (
    Answer("JSON that conforms", "total", '{"total": 12}'),
    Answer("JSON without its end", "total", '{"total": 12'),
    Answer("text after the JSON", "total", '{"total": 12} Done.'),
    Answer("text before the JSON", "total", 'Here it is: {"total": 12}'),
    Answer("a `json` fence, alone", "total", '```json\n{"total": 12}\n```'),
    Answer("a `json` fence inside prose", "total", 'Here it is:\n```json\n{"total": 12}\n```\nDone.'),
    Answer("a fence labelled `python`", "total", '```python\n{"total": 12}\n```'),
    Answer("single quotes", "total", "{'total': 12}"),
    Answer('`"12"` for an integer', "total", '{"total": "12"}'),
    Answer("`12.0` for an integer", "total", '{"total": 12.0}'),
    Answer("`12.5` for an integer", "total", '{"total": 12.5}'),
    Answer("a field that the type lacks", "total", '{"total": 12, "note": "x"}'),
    Answer('`"007"` for `str | int`', "code", '{"code": "007"}'),
    Answer("`7.0` for `str | int`", "code", '{"code": 7.0}'),
    Answer("a fence inside a string", "text", '{"text": "```json\\n{\\"text\\": 1}\\n```"}'),
    Answer("the same in a `json` fence", "text", '```json\n{"text": "```python\\nf()\\n```"}\n```'),
)
