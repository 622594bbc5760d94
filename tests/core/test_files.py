"""Check reading of third-party files: which are accepted, and which are rejected with one line."""

import contextlib
import gzip
import json
import math
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core import files
from pytest_jsbench.core.errors import JournalError, RecordError
from pytest_jsbench.core.files import (
    FileReader,
    IndexedLines,
    Unreadable,
    inside,
    json_line,
    parse_json,
    write_atomically,
)
from tests.support.mutations import TRIED, mutated, mutated_bytes, text_of


def refusal(path: Path, reader: FileReader | None = None) -> Unreadable:
    with pytest.raises(Unreadable) as refused:
        (reader or FileReader()).read_json(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)
    return refused.value


def test_a_file_is_read_as_bytes_text_and_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": "\xc3\xa9"}')

    assert FileReader().read_bytes(path).startswith(b"\xef\xbb\xbf")
    assert FileReader().read_text(path) == '{"a": "é"}'
    assert FileReader().read_json(path) == {"a": "é"}


@pytest.mark.parametrize(
    ("data", "problem", "reason"),
    [
        (b"{", "not JSON: Expecting property name enclosed in double quotes at the end of the text", "not_json"),
        (b"{\n", "not JSON: Expecting property name enclosed in double quotes at the end of the text", "not_json"),
        (b"{\n]", "not JSON: Expecting property name enclosed in double quotes at line 2 column 1", "not_json"),
        (b'[1,\n"a\xff"]', "cannot be read: line 2 is not UTF-8", "not_json"),
        (b"[NaN]", "not JSON: NaN is not JSON", "not_json"),
        (b'{"a": 1, "a": 2}', "not JSON: an object has the key 'a' twice", "not_json"),
        (b'{"b":{"a":1,"a":2}}', "not JSON: an object has the key 'a' twice", "not_json"),
        (b'{"a":1,"a":1}', "not JSON: an object has the key 'a' twice", "not_json"),
        (b'{"a":1,"\\u0061":1}', "not JSON: an object has the key 'a' twice", "not_json"),
        (b'{"a":NaN}', "not JSON: NaN is not JSON", "not_json"),
        (b'{"a":1e400}', "not JSON: the number 1e400 is beyond double precision", "not_json"),
        (b"1e999", "not JSON: the number 1e999 is beyond double precision", "not_json"),
        (b"9" * 5000, "not JSON: a number with too many digits", "not_json"),
        (b"[" * 100_000, "nested too deeply to be read as JSON", "too_deep"),
        (b'[{"a":' * 300 + b"1" + b"}]" * 300, "nested too deeply to be read as JSON", "too_deep"),
    ],
)
def test_invalid_json_is_reported_with_the_file(tmp_path: Path, data: bytes, problem: str, reason: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)

    found = refusal(path)

    assert (found.problem, found.reason) == (problem, reason)


VALUE = {"a": ["\ud800", "é", "\x7f/\u2028"], "b": {"c": 4.1e-05, "d": [10**400, -0.0, 1e22, 0]}, "": None, "[": True}


def outcome(text: str | bytes) -> Any:
    with contextlib.suppress(Unreadable):
        return json.dumps(parse_json(text), sort_keys=True)
    return Unreadable


@pytest.mark.slow
def test_compact_text_is_parsed_like_any_other() -> None:
    chance = random.Random("compact")
    for _ in range(20 * TRIED):
        compact = re.sub(r'(?<=["\w\]}])([:,]) ', r"\1", text_of(mutated(VALUE, chance)))
        spaced = "\n " + compact
        assert outcome(compact) == outcome(spaced), compact
        broken = mutated_bytes(compact.encode("utf-8", "surrogatepass"), chance)
        assert outcome(broken) == outcome(b"\n " + broken if broken[:3] != b"\xef\xbb\xbf" else broken), broken


@pytest.mark.parametrize("lone", [chr(0xD800), chr(0xDCFF), chr(0xDFFF)])
def test_json_line_has_every_value_in_ascii(lone: str) -> None:
    value = {**VALUE, lone: {"of": [lone, "a" + lone]}}

    line = json_line(value)

    assert line.isascii()
    assert line.endswith(b"}\n")
    assert parse_json(line) == value
    assert parse_json(json_line({"text": "ascii", "time": 4.1e-05})) == {"text": "ascii", "time": 4.1e-05}


def test_json_line_is_encoded_once_unless_msgspec_changes_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise AssertionError

    deep: Any = []
    for _ in range(200):
        deep = [deep]
    with monkeypatch.context() as patched:
        patched.setattr(json, "dumps", fail)
        assert json_line({"a": [1, 2.5, None, 2**70]}) == b'{"a":[1,2.5,null,1180591620717411303424]}\n'
    for value in ({"a": "é"}, {1: 2}, (1, (2,)), deep, {"a": "\ud800"}):
        assert json_line(value) == json.dumps(value, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_json_line_rejects_nan_instead_of_writing_null(number: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        json_line({"a": [number]})


@pytest.mark.parametrize("text", ['"[[[["', r'"\\[[[["', r'"\"[[[["', r'"\n[[[["', '{"[[[[": "[[["}', "[[[]]]"])
def test_brackets_inside_strings_do_not_nest(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(files, "DEEPEST", 3)
    assert parse_json(text) == json.loads(text)


def test_brackets_after_an_escape_do_nest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "DEEPEST", 3)
    with pytest.raises(Unreadable, match="nested too deeply"):
        parse_json(r'["\\", [[[]]]]')


def test_too_many_values_are_rejected_before_they_are_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_VALUES", 1000)
    assert len(parse_json(json.dumps([","] * 999))) == 999
    with pytest.raises(Unreadable, match=r"more than 1,000 values") as refused:
        parse_json("[" + "[]," * 1000 + "[]]")
    assert refused.value.reason == "too_large"


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        file.truncate(10**12)

    found = refusal(path)

    assert found.problem == "cannot be read: 1,000,000,000,000 bytes; expected at most 100,000,000"
    assert found.reason == "too_large"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes of that kind here")
def test_pipe_does_not_block_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert refusal(tmp_path / "pipe.json").problem == "cannot be read: not a file"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
def test_a_device_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    assert refusal(tmp_path / "zero.json").problem == "cannot be read: not a file"


def test_missing_file_and_directory_are_reported(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.json").problem == "cannot be read: No such file or directory"
    assert refusal(tmp_path).problem.startswith("cannot be read: ")
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    assert "cannot be read: " in refusal(tmp_path / "loop.json").problem


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.json"
    root.mkdir()
    outside.write_text("{}")
    (root / "link.json").symlink_to(outside)
    (root / "folder").symlink_to(tmp_path)
    (root / "real.json").write_text("1")
    (root / "within.json").symlink_to(root / "real.json")
    reader = FileReader(root=root)

    for path in (root / "link.json", root / "folder" / "outside.json", root / ".." / "outside.json", outside):
        assert refusal(path, reader).reason == "outside"
    assert reader.read_json(root / "within.json") == 1


def test_linked_root_contains_the_files_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.json").write_text("1")
    (tmp_path / "root").symlink_to(tmp_path / "real")

    assert FileReader(root=tmp_path / "root").read_json(tmp_path / "root" / "a.json") == 1


def test_the_blobs_of_the_same_repository_in_a_hubs_cache_are_inside(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "datasets--a--ours", tmp_path / "datasets--b--theirs"
    snapshot = ours / "snapshots" / "0123"
    for folder in (snapshot / "data", ours / "blobs", theirs / "blobs"):
        folder.mkdir(parents=True)

    assert inside(snapshot, ours / "blobs" / "abc")
    assert inside(snapshot / "data", ours / "blobs" / "abc")
    assert not inside(snapshot, theirs / "blobs" / "abc")
    assert not inside(snapshot, ours / "refs" / "main")
    assert not inside(snapshot, Path("a\0b"))


def test_blobs_that_are_a_link_to_elsewhere_are_outside(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("1")
    snapshot = tmp_path / "datasets--a--b" / "snapshots" / "0"
    snapshot.mkdir(parents=True)
    (tmp_path / "datasets--a--b" / "blobs").symlink_to(tmp_path)

    assert not inside(snapshot, tmp_path / "datasets--a--b" / "blobs" / "secret")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_lines_have_number_offset_and_end(tmp_path: Path, suffix: str) -> None:
    data = b'{"a":1}\r\n\n[2]\nbroken off'
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(gzip.compress(data) if suffix else data)

    lines = list(FileReader().read_lines(path))

    assert [(line.number, line.data, line.ended) for line in lines] == [
        (1, b'{"a":1}', True),
        (2, b"", True),
        (3, b"[2]", True),
        (4, b"broken off", False),
    ]
    for line in lines:
        assert data[line.start : line.start + line.size] == line.data


@pytest.mark.parametrize("size", [10, 11, 12, 13, 1000])
def test_long_line_has_no_data_and_does_not_hide_the_next(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x" * size + b"\nafter\n")

    first, second = FileReader(longest_line=10).read_lines(path)

    assert (first.data, first.ended) == (b"x" * 10 if size == 10 else None, True)
    assert (second.start, second.data) == (size + 1, b"after")
    if size > 10:
        assert first.size in {size, size + 1}


def test_json_lines_have_values_and_invalid_ones_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n\n[2]\n{"b"\n')
    reader = FileReader(error=RecordError).read_json_lines(path)

    assert next(reader)[1] == {"a": 1}
    assert (found := next(reader))[1] == [2]
    assert found[0].number == 3
    with pytest.raises(RecordError, match=rf"^{re.escape(str(path))}:4: not JSON: Expecting ':' delimiter"):
        next(reader)


def test_a_long_line_among_json_lines_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'["{"x" * 20}"]\n')
    with pytest.raises(Unreadable, match=r"a\.jsonl:1: cannot be read: \d+ bytes; expected at most 10"):
        list(FileReader(longest_line=10).read_json_lines(path))


def test_huge_packed_file_is_rejected_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_UNPACKED", 10_000_000)
    path = tmp_path / "a.jsonl.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(50):
            file.write(b"0" * 1_000_000)

    with pytest.raises(Unreadable, match=r"bytes; expected at most 10,000,000"):
        list(FileReader().read_lines(path))


@pytest.mark.parametrize(
    "data", [b"", b"no gzip", gzip.compress(b"{}\n" * 100, mtime=0)[:-12], b"\x1f\x8b\x08\0\0\0\0\0\0\0x"]
)
def test_invalid_packed_file_is_rejected_in_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(data)
    if not data:
        assert list(FileReader().read_lines(path)) == []
        return
    with pytest.raises(Unreadable, match=r"a\.jsonl\.gz: cannot be (read|unpacked): "):
        list(FileReader().read_lines(path))


def test_a_name_that_would_steer_a_terminal_is_escaped(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\n::error::.json"
    with pytest.raises(Unreadable) as refused:
        FileReader().read_json(path)
    assert str(refused.value).isprintable()


def test_file_is_replaced_completely_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_atomically(path, json.dumps({"a": 1}))

    with pytest.raises(JournalError, match="cannot write"):
        write_atomically(tmp_path / "missing" / "run.json", "{}")
    with pytest.raises(JournalError, match="cannot write"):
        write_atomically(path, ["half", "\ud800"])
    assert json.loads(path.read_text()) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("theirs")
    for name in ("run.json", f"run.json.{os.getpid()}.part"):
        (tmp_path / name).symlink_to(outside)

    write_atomically(tmp_path / "run.json", "ours")

    assert outside.read_text() == "theirs"
    assert (tmp_path / "run.json").read_text() == "ours"
    assert not (tmp_path / "run.json").is_symlink()


def test_lines_are_found_by_their_key_and_the_later_of_two_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"head": 1}\n{"name": "a", "n": 1}\n{"name": "b", "n": "\\u00e9"}\n{"name": "a", "n": 3}\n')

    lines = IndexedLines(path, lambda line: line.get("name"))

    assert list(lines) == ["a", "b"]
    assert (lines.get("a"), lines.get("b")) == ({"name": "a", "n": 3}, {"name": "b", "n": "é"})
    assert ("c" in lines, lines.get("c")) == (False, None)
