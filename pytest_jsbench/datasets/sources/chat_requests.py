"""
Read chat requests that offer tools, and the results of requests, as the vendor verifiers of Kimi K2 write them.

A line is the body of a request to OpenAI's chat API, or the result of one: the `request`, and the `finish_reason` of
its response. A result has the decision of a reference deployment: a correct answer calls a tool if that one did.
Format: MoonshotAI/K2-Vendor-Verifier, `samples.jsonl` and `*_results.jsonl`, December 2025.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader, Unreadable
from pytest_jsbench.core.json_values import as_mapping, json_type
from pytest_jsbench.core.messages import read_messages
from pytest_jsbench.core.tool_offers import ToolOffer
from pytest_jsbench.datasets.base import ListedCase, Listing, Selection
from pytest_jsbench.datasets.documents import LARGEST_SCHEMA
from pytest_jsbench.datasets.sources import rows, tool_cases

#: Role that the verifiers send as `system`.
_INPUT_ROLE = "_input"
#: Value of `status` in the result of a request that was answered.
_ANSWERED = "success"
#: Finish reason of a response with calls.
_CALLED = "tool_calls"


def open_requests(selection: Selection, path: Path) -> Listing:
    """Open the requests in the lines of a file as cases that offer the tools of each request."""
    if path.suffix == ".gz":
        raise DatasetError(f"{path}: a packed file of requests cannot be read; unpack it first")
    reader = FileReader(root=path.parent, longest_line=LARGEST_SCHEMA)
    return Listing.from_entries(selection, _find_cases(reader, path))


def _find_cases(reader: FileReader, path: Path) -> Iterator[ListedCase]:
    for line in rows.list_lines(reader, path):
        read = partial(_read_case, line.read)
        yield ListedCase(task=path.stem, name=_find_name(line), where=f"{path} line {line.number}", read=read)


def _find_name(line: rows.RowLine) -> str:
    """Return the name of a request by its number in the samples, which the result of a request has, too."""
    index = as_mapping(line.value).get("data_index")
    return f"request-{index if type(index) is int else line.number}"


def _read_case(read: Callable[[], object], key: CaseKey) -> Case:
    row = read()
    if not isinstance(row, Mapping):
        raise Unreadable(f"the line is a JSON {json_type(row)}; expected a request", reason="bad_row")
    request = row["request"] if isinstance(row.get("request"), Mapping) else row
    if not isinstance(request.get("tools"), list):
        message = f"tools is a JSON {json_type(request.get('tools'))}; expected the tools of a request as a list"
        raise Unreadable(message, reason="bad_row")
    called = _read_decision(row)
    try:
        offer = ToolOffer(
            tools=tool_cases.offer_definitions({"tools": request["tools"]}),
            choice=tool_cases.read_choice(request.get("tool_choice")),
            expected=() if called is False else None,
            some_call=called is True,
        )
        messages = read_messages(_read_turns(request.get("messages")), exact=False)
    except ValueError as error:
        raise Unreadable(str(error), reason="bad_row") from None
    return Case(key=key, schema=True, messages=messages, offer=offer)


def _read_decision(row: Mapping[str, Any]) -> bool | None:
    """Return whether the response of a result calls a tool; None without a result, or if the request failed."""
    reason = row.get("finish_reason")
    if not isinstance(reason, str) or row.get("status", _ANSWERED) != _ANSWERED:
        return None
    return reason == _CALLED


def _read_turns(messages: object) -> object:
    if not isinstance(messages, list):
        return messages
    return [
        {**turn, "role": "system"} if isinstance(turn, Mapping) and turn.get("role") == _INPUT_ROLE else turn
        for turn in messages
    ]
