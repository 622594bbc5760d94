from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from pytest_jsbench.core import json_values
from pytest_jsbench.core.json_values import from_json, loads, too_deep

Names = dict[Annotated[str, Meta(pattern="^a$")], int]


def test_type_is_described_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # msgspec 0.22 crashes if two threads describe the same type at the same time.
    convert, threads = msgspec.convert, 8
    ready = threading.Barrier(threads)
    describing: list[int] = []
    most = 0

    def observed(data: object, kind: Any, **hooks: Any) -> Any:
        nonlocal most
        if isinstance(data, dict):
            return convert(data, kind, **hooks)
        describing.append(threading.get_ident())
        most = max(most, len(describing))
        time.sleep(0.01)
        describing.remove(threading.get_ident())
        return None

    def read() -> Any:
        ready.wait()
        return from_json(Names, {"a": 1})

    monkeypatch.setattr(msgspec, "convert", observed)
    json_values._describe.cache_clear()
    with ThreadPoolExecutor(threads) as pool:
        results = [future.result() for future in [pool.submit(read) for _ in range(threads)]]

    assert results == [{"a": 1}] * threads
    assert most == 1


@pytest.mark.parametrize(
    ("kind", "data", "problem"),
    [
        (Names, {"b": 1}, "a key of the whole is wrong: expected str matching regex '^a$'"),
        (dict[str, Names], {"x": {"b": 1}}, "a key of [...] is wrong: expected str matching regex '^a$'"),
        (Names, {"a": "1"}, "[...] is wrong: expected int, got str"),
    ],
)
def test_error_names_the_key_that_is_wrong(kind: Any, data: object, problem: str) -> None:
    with pytest.raises(ValueError, match="wrong: expected") as caught:
        from_json(kind, data)

    assert str(caught.value) == problem


@pytest.mark.parametrize("depth", [1, 2, 31, 32, 33, 34, 200])
@pytest.mark.parametrize("beside", ["", "[]," * 300, "{}," * 300, "]["])
def test_too_deep_counts_levels(depth: int, beside: str) -> None:
    opened = beside + "[{" * (depth // 2) + "[" * (depth % 2)
    # "][" closes and opens a level, so the depth stays the same
    for text in (opened, opened + "]" * (depth % 2) + "}]" * (depth // 2)):
        assert not too_deep(text, depth)
        assert too_deep(text, depth - 1)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, 2.5, -0.0, true, null], "b": "\\u00e9\\ud83d\\ude00", "a": 2}',
        b'{"a": "\xc3\xa9"}',
        "NaN",
        "[Infinity, -Infinity]",
        "1e400",
        "-1E-400",
        "123456789012345678901234567890",
        r'"\ud800"',
        '"\ud800"',
        " [1]\n",
        "[" * 900 + "]" * 900,
    ],
)
def test_texts_are_parsed_as_by_the_standard_library(text: str | bytes) -> None:
    assert repr(loads(text)) == repr(json.loads(text))


@pytest.mark.parametrize("text", ["", "{", "[1,]", "01", '"\n"', "1 2", "\ufeff1", "[" * 100_000, "1" * 5_000])
def test_invalid_texts_raise_the_error_of_the_standard_library(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)) as expected:
        json.loads(text)

    with pytest.raises(expected.type) as found:
        loads(text)

    assert str(found.value) == str(expected.value)
