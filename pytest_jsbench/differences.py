"""What changed between two prompts or two schemas, said in a few words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.text import printable

if TYPE_CHECKING:
    from pytest_jsbench.prompts import Prompt

_SHOWN = 40
_CHANGES = 2


def prompt_change(before: Prompt, after: Prompt) -> str:
    """The first place where two prompts differ; empty where they do not."""
    if before == after:
        return ""
    for number, (was, now) in enumerate(zip(before.messages, after.messages, strict=False), start=1):
        place = "" if len(after.messages) == 1 else f" of message {number}"
        if was.role != now.role:
            return f"role{place} was {was.role}, is {now.role}"
        if was.content != now.content:
            return _text_change(was.content, now.content, place)
    return f"{len(before.messages)} messages were recorded, {len(after.messages)} are asked"


def json_change(before: object, after: object) -> str:
    """The first places where two JSON values differ; empty where they do not."""
    changes = list(_changes(before, after, "$"))
    shown = ", ".join(changes[:_CHANGES])
    more = len(changes) - _CHANGES
    return f"{shown} and {more} more" if more > 0 else shown


def settings_change(
    then: Mapping[str, Mapping[str, Any]] | None, used: Mapping[str, Any], now: Mapping[str, Mapping[str, Any]]
) -> str:
    """
    What is said of engine and sampling now and was not so when an answer was recorded; empty where nothing is.

    Both have what the `test` and what the `run` said; `used` is what is known all the same of what was not said.
    """
    by_test, by_run = ({}, {}) if then is None else (then["test"], then["run"])
    before, asked = {**used, **by_run, **by_test}, {**now["run"], **now["test"]}
    unknown = ("engine", "option ") if then is None else ()
    changed = [
        f"{name} was {_said(before, name)}, is {_said(asked, name)}"
        for name in [*asked, *(name for name in by_test if name not in asked)]
        if not name.startswith(unknown) and not _is_same(before.get(name), asked.get(name))
    ]
    return ", ".join(changed)


def _said(settings: Mapping[str, Any], name: str) -> str:
    return _short(settings[name]) if settings.get(name) is not None else "not said"


def _text_change(before: str, after: str, place: str) -> str:
    pairs = enumerate(zip(before, after, strict=False))
    changed = next((at for at, (was, now) in pairs if was != now), min(len(before), len(after)))
    line_start = before.rfind("\n", 0, changed) + 1
    line = before.count("\n", 0, changed) + 1
    start = max(line_start, changed - _SHOWN // 2)
    return f"line {line}{place} was {_quoted(before, start)}, is {_quoted(after, start)}"


def _quoted(text: str, start: int) -> str:
    line = text[start:].partition("\n")[0]
    before = "…" if start and text[start - 1] != "\n" else ""
    return f'"{before}{printable(line, _SHOWN)}"'


def _changes(before: object, after: object, path: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*before, *(name for name in after if name not in before)]:
            place = f"{path}.{printable(str(name), _SHOWN)}"
            if name not in after:
                yield f"{place} is gone"
            elif name not in before:
                yield f"{place} is new"
            else:
                yield from _changes(before[name], after[name], place)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (was, now) in enumerate(zip(before, after, strict=True)):
            yield from _changes(was, now, f"{path}[{number}]")
    elif not _is_same(before, after):
        yield f"{path} was {_short(before)}, is {_short(after)}"


def _is_same(before: object, after: object) -> bool:
    """Whether two values are one in JSON, where 0 and 0.0 are the same number, and 0 is not false."""
    kinds = {float if type(value) is int else type(value) for value in (before, after)}
    return len(kinds) == 1 and before == after


def _short(value: object) -> str:
    return printable(json.dumps(value, ensure_ascii=False), _SHOWN)
