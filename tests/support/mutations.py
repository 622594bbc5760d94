"""
Create hostile variants of good input from seeds, which readers of foreign files must survive.

`mutated` changes a JSON value, `text_of` writes it as text (with tokens that no JSON value has), and `mutated_json`,
`mutated_lines` and `mutated_bytes` change a file's contents. `survive` tests a reader.
"""

from __future__ import annotations

import json
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_jsbench.core.errors import JSBenchError
from tests.support.fuzzing import TIMES

#: Number of mutations to try on a reader.
TRIED = max(1, int(100 * TIMES))

STRINGS = (
    "", " ", "\n", "\0", "\ud800", "\U000e0041", "\u202e", "\ufeff",
    "é" * 300, "a" * 100_000, "\n" * 5_000, "-" * 5_000,
    "::error ::x", "##[command]", "\x1b[31m", "{{ 7 * 7 }}", "{schema}", "{0.__class__}", "%s%n", "null", "NaN",
    "1e999",
    "..", "../../etc/passwd", "/etc/passwd", "a/b", "a::b", "~1~0%zz", "#", "#/", "#/%", "#/a/0/-1", "file:///etc/passwd",
    "http://127.0.0.1:9/x", "http://[", "urn:x", "(a|b)+$", "[", "\\", "*", "$ref", "__proto__", "2026-99-99",
)  # fmt: skip
NUMBERS = (
    0,
    -1,
    1,
    -0.0,
    0.5,
    5e-324,
    1e308,
    -1e308,
    2**31,
    2**53 + 1,
    2**63,
    -(2**63) - 1,
    2**64,
    10**400,
    -(10**400),
)
#: Tokens that a JSON file may contain but a JSON value cannot.
TOKENS = (
    "", "NaN", "-Infinity", "1e999", "-1e999", "9" * 5_000, "1" + "0" * 400, "0." + "0" * 5_000 + "1", "'a'", "01",
    "1 2",
    '{"a": 1, "a": 2}', "[" * 3_000 + "]" * 3_000, '{"a":' * 3_000 + "1" + "}" * 3_000, "[[[" * 400, '"\\ud800"',
    '"\t"', "[1,]", "/**/1", "tru", '"a',
)  # fmt: skip
_MARK = "\ue000token "

Place = tuple[Any, Any]


def mutated(value: Any, chance: random.Random) -> Any:
    """Return a copy of a JSON value with one to three changed places."""
    holder = [json.loads(json.dumps(value))]
    for _ in range(chance.choice((1, 1, 2, 3))):
        container, key = chance.choice(list(_places(holder)))
        chance.choice(_CHANGES)(container, key, chance)
    return holder[0] if holder else None


def text_of(value: Any) -> str:
    """Return the value as JSON text, with invalid tokens at the places that a mutation marked."""
    text = json.dumps(value)
    for token in TOKENS:
        text = text.replace(json.dumps(_MARK + token), token)
    return text


def mutated_json(data: bytes, chance: random.Random) -> bytes:
    """Return the contents of a JSON file with changed values, changed bytes, or both."""
    if chance.random() < 0.7:
        data = text_of(mutated(json.loads(data), chance)).encode("utf-8", "surrogatepass")
    return mutated_bytes(data, chance) if chance.random() < 0.4 else data


def mutated_lines(data: bytes, chance: random.Random) -> bytes:
    """Return the contents of a JSON Lines file with some lines changed, doubled, dropped, joined or moved."""
    lines = data.splitlines()
    for _ in range(chance.choice((1, 1, 2, 3))):
        number = chance.randrange(len(lines)) if lines else 0
        match chance.randrange(8):
            case 0:
                lines[number:number] = lines[number : number + 1] * chance.choice((1, 2, 50))
            case 1:
                del lines[number : number + 1]
            case 2:
                lines[number : number + 2] = [b"".join(lines[number : number + 2])]
            case 3:
                chance.shuffle(lines)
            case _ if lines:
                lines[number] = mutated_json(lines[number], chance) if _is_json(lines[number]) else b""
    joined = chance.choice((b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"\r")).join(lines)
    data = joined + chance.choice((b"\n", b"\n", b"", b"{", b"\0"))
    return mutated_bytes(data, chance) if chance.random() < 0.2 else data


def mutated_bytes(data: bytes, chance: random.Random) -> bytes:
    """Return the bytes with some flipped, removed, inserted, doubled or moved."""
    for _ in range(chance.choice((1, 1, 2, 5))):
        begin, end = sorted((chance.randrange(len(data) + 1), chance.randrange(len(data) + 1)))
        match chance.randrange(7):
            case 0:
                data = data[:begin]
            case 1:
                data = data[:begin] + data[begin + chance.choice((1, 4, 64)) :]
            case 2:
                data = data[:begin] + chance.randbytes(chance.choice((1, 2, 16))) + data[begin:]
            case 3:
                data = data[:begin] + data[begin:end] * chance.choice((2, 3)) + data[end:]
            case 4:
                hostile = chance.choice((*STRINGS, *TOKENS)).encode("utf-8", "surrogatepass")
                data = data[:begin] + hostile + data[begin:]
            case 5:
                data = chance.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f\x8b", b"\0", b"\n" * 4_000)) + data
            case _ if data:
                place = min(begin, len(data) - 1)
                data = data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]
    return data


@dataclass(frozen=True, slots=True, kw_only=True)
class Survived:
    """Results of the mutations of one reader's input."""

    tried: int
    #: Seeds and tracebacks of exceptions other than our errors.
    broken: list[tuple[str, str]] = field(default_factory=list)
    #: Seconds of the slowest mutation, and its seed.
    slowest: tuple[float, str] = (0.0, "")
    #: Bytes by which the process's peak memory grew.
    grown: int = 0

    def __str__(self) -> str:
        seconds, seed = self.slowest
        told = f"{self.tried} mutations, {len(self.broken)} tracebacks, slowest {seconds:.2f} s ({seed})"
        return "\n".join(
            [f"{told}, peak + {self.grown >> 20} MB", *(f"{seed}: {text}" for seed, text in self.broken[:5])]
        )


def survive(name: str, attempt: Callable[[random.Random], object], kept: Iterable[str] = ()) -> Survived:
    """Test a reader on mutations and on kept seeds; `attempt` mutates with the given random generator."""
    seeds = [*kept, *(f"{name} {number}" for number in range(TRIED))]
    broken: list[tuple[str, str]] = []
    slowest = (0.0, "")
    before = _peak()
    for seed in seeds:
        begin = time.perf_counter()
        try:
            attempt(random.Random(seed))
        except JSBenchError as error:
            if "\n" in str(error) or not str(error).strip():
                broken.append((seed, f"no one line: {error!r}"))
        except Exception:  # noqa: BLE001  what is looked for
            broken.append((seed, "".join(traceback.format_exc(limit=-4))))
        slowest = max(slowest, (time.perf_counter() - begin, seed))
    return Survived(tried=len(seeds), broken=broken, slowest=slowest, grown=_peak() - before)


def _peak() -> int:
    """Return the peak memory of the process in bytes; 0 if the system does not report it."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _places(holder: list[Any]) -> Iterator[Place]:
    pending: list[Any] = [holder]
    while pending:
        container = pending.pop()
        inner = list(container.items() if isinstance(container, dict) else enumerate(container))
        for key, value in inner:
            yield container, key
            if isinstance(value, dict | list) and value:
                pending.append(value)


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _replace(container: Any, key: Any, chance: random.Random) -> None:
    """Return another type, a hostile string or number, or a token that no JSON value has."""
    kinds: Sequence[Sequence[Any]] = (
        STRINGS,
        NUMBERS,
        [_MARK + token for token in TOKENS],
        (None, True, False, [], {}),
    )
    container[key] = chance.choice(chance.choice(kinds))


def _delete(container: Any, key: Any, chance: random.Random) -> None:
    if len(container) > 1 or isinstance(container, dict):
        del container[key]


def _nest(container: Any, key: Any, chance: random.Random) -> None:
    value = container[key]
    for _ in range(chance.choice((1, 2, 100, 250))):
        value = chance.choice((lambda inner: [inner], lambda inner: {"a": inner}))(value)
    container[key] = value


def _repeat(container: Any, key: Any, chance: random.Random) -> None:
    container[key] = [container[key]] * chance.choice((2, 60))


def _rename(container: Any, key: Any, chance: random.Random) -> None:
    if isinstance(container, dict):
        container[chance.choice((*STRINGS, f"{key} ", f"{key}s"))] = container.pop(key)


def _swap(container: Any, key: Any, chance: random.Random) -> None:
    other = chance.choice(list(container) if isinstance(container, dict) else range(len(container)))
    container[key], container[other] = container[other], container[key]


_CHANGES = (_replace, _replace, _replace, _delete, _nest, _repeat, _rename, _swap)
