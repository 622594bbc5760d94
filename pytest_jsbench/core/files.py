"""
Read third-party files safely, and write the package's own files.

A file is read only if it lies inside the given root directory, is a regular file, and stays within limits on its size
in bytes (also after unpacking), its number of values and its nesting depth. Errors name the file and the reason.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import gzip
import json
import math
import os
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Generic, NoReturn, Self, TypeVar

import msgspec

from pytest_jsbench.core.errors import JournalError, JSBenchError, describe_exhaustion
from pytest_jsbench.core.json_values import structure, too_deep
from pytest_jsbench.core.text import printable

#: Maximum size in bytes of a file that is read as a whole.
LARGEST = 100_000_000
#: Maximum size in bytes of a line, which is one row, record or answer.
LONGEST_LINE = 10_000_000
#: Maximum size in bytes of a file that is read line by line.
LARGEST_LINES = 10_000_000_000
#: Maximum size in bytes of unpacked content.
LARGEST_UNPACKED = 200_000_000
#: Maximum nesting depth of arrays and objects.
DEEPEST = 500
#: Maximum number of values in a document.
MOST_VALUES = 5_000_000

#: Modes of files and directories that this package creates; the umask can only restrict them further.
_PRIVATE_FILE = 0o600
_PRIVATE_FOLDER = 0o700
_SHARED_FILE = 0o666

#: Number of bytes written to find out whether a directory is writable.
_TEST_BYTES = 1 << 14

#: Position of the locked byte, past the end of any file that is locked.
_LOCK_POSITION = (1 << 31) - 2

#: Type of the key that identifies a line.
K = TypeVar("K")

#: Number of bytes skipped at a time if a line is too long to be read.
_CHUNK = 1 << 20
#: Name of the directory in a hub's cache with a repository's blobs; the files in a snapshot are links to the blobs.
_BLOBS = "blobs"
_SNAPSHOTS = "snapshots"
_REPOSITORY = "datasets--"


class Unreadable(JSBenchError):
    """A file, or a place in a file, cannot be read; the error has a message, and a reason for programs."""

    def __init__(
        self,
        problem: str,
        *,
        reason: str = "not_json",
        path: object = None,
        found: object = None,
        expected: object = None,
    ) -> None:
        text = problem if path is None else printable(f"{path}: {problem}", limit=600)
        super().__init__(text, found=found, expected=expected, where=path)
        self.problem = problem
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a file; `data` is None if the line is too long."""

    #: Line number, from 1.
    number: int
    #: Offset of the line's start in the file, in bytes.
    start: int
    #: Size in bytes, without the line end.
    size: int
    data: bytes | None
    #: Whether the line has a line end; a killed process may leave a last line without a line end.
    ended: bool


def here() -> Path:
    """Return the current directory, against which relative paths are resolved."""
    try:
        return Path.cwd()
    except OSError:  # the directory was removed: only absolute paths can be read
        return Path()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReader:
    """Reads third-party files, with limits on size and depth; each error is one line that names the file."""

    #: Directory that must contain all files; None if the user named the files.
    root: Path | None = None
    #: Maximum size in bytes of a file that is read as a whole.
    largest: int = LARGEST
    longest_line: int = LONGEST_LINE
    error: type[JSBenchError] = Unreadable
    #: Base of relative paths, even if a test changes the current directory later.
    start: Path = field(default_factory=here)

    def open(self, path: Path) -> BinaryIO:
        """Open the file for a library that reads the file's format."""
        with self._errors_naming(path):
            return self._open(path)

    def read_bytes(self, path: Path) -> bytes:
        """Read the whole file."""
        with self._errors_naming(path), self._open(path) as file:
            check_size(os.fstat(file.fileno()).st_size, self.largest)
            data = file.read(self.largest + 1)
            check_size(len(data), self.largest)
            return data

    def read_part(self, path: Path, start: int, size: int) -> bytes:
        """Read `size` bytes at offset `start`; `size` must not exceed the maximum length of a line."""
        with self._errors_naming(path), self._open(path) as file:
            check_size(size, self.longest_line)
            file.seek(start)
            return file.read(size)

    def read_text(self, path: Path) -> str:
        """Read the text of the file as UTF-8, without the byte order mark."""
        data = self.read_bytes(path)
        with self._errors_naming(path):
            return decode(data)

    def read_json(self, path: Path) -> Any:
        """Read the JSON value in the file."""
        data = self.read_bytes(path)
        with self._errors_naming(path):
            return parse_json(data, largest=self.largest)

    def read_lines(self, path: Path) -> Iterator[Line]:
        """Yield all lines of the file, unpacked if its name ends in `.gz`."""
        with self._errors_naming(path), self._open(path) as file:
            if path.suffix != ".gz":
                yield from self._lines(file, LARGEST_LINES)
                return
            with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
                yield from self._lines(unpacked, LARGEST_UNPACKED)

    def read_json_lines(self, path: Path) -> Iterator[tuple[Line, Any]]:
        """Yield each line that is not blank, with its JSON value."""
        for line in self.read_lines(path):
            with self._errors_naming(f"{path}:{line.number}"):
                if line.data is None:
                    check_size(line.size, self.longest_line)
                elif line.data.strip():
                    yield line, parse_json(line.data, largest=self.longest_line)

    def _open(self, path: Path) -> BinaryIO:
        place = self.start / path
        resolved = self._resolve(place)
        # Opening a pipe or device must not block.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(resolved, flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise Unreadable("cannot be read: not a file", reason="not_a_file")
        return os.fdopen(descriptor, "rb")

    def _resolve(self, place: Path) -> Path:
        """Return the path with links resolved; raise Unreadable if it is not in the root directory."""
        if self.root is None:
            return real(place)
        with contextlib.suppress(ValueError):  # for example a null byte in a path from a third-party file
            resolved = real(place)
            if _is_below(real(self.start / self.root), resolved):
                return resolved
        raise Unreadable(f"leads out of {self.root}", reason="outside")

    def _lines(self, file: BinaryIO | gzip.GzipFile, largest: int) -> Iterator[Line]:
        start = 0
        for number, line in enumerate(iter(lambda: file.readline(self.longest_line + 2), b""), start=1):
            size = len(line)
            end = line
            while not end.endswith(b"\n") and (end := file.readline(_CHUNK)):
                size += len(end)
                check_size(start + size, largest)
            check_size(start + size, largest)
            text = line.rstrip(b"\r\n")
            whole = size == len(line) and len(text) <= self.longest_line
            yield Line(
                number=number,
                start=start,
                size=len(text) if whole else size,
                data=text if whole else None,
                ended=(end or line).endswith(b"\n"),
            )
            start += size

    @contextlib.contextmanager
    def _errors_naming(self, place: object) -> Iterator[None]:
        try:
            yield
        except Unreadable as unreadable:
            raise self._error(place, unreadable) from None
        except OSError as error:
            if why := describe_exhaustion(error):  # the file is not at fault, so its cases are not invalid
                raise JSBenchError(f"{place} cannot be read: {why}", where=place) from error
            problem = f"cannot be read: {error.strerror or error}"
            raise self._error(place, Unreadable(problem, reason="unreadable")) from error
        except (EOFError, zlib.error) as error:
            problem = f"cannot be unpacked: {error}"
            raise self._error(place, Unreadable(problem, reason="unreadable")) from error

    def _error(self, place: object, unreadable: Unreadable) -> JSBenchError:
        values: dict[str, Any] = {"found": unreadable.found, "expected": unreadable.expected}
        named = Unreadable(unreadable.problem, reason=unreadable.reason, path=place, **values)
        return named if self.error is Unreadable else self.error(str(named), where=place, **values)


class LinesByPlace:
    """
    Random access to lines of files, by file and offset.

    Only one thread may use an instance. Files stay open until the instance is closed.
    """

    def __init__(self, reader: FileReader) -> None:
        self._reader = reader
        self._files: dict[Path, BinaryIO | gzip.GzipFile] = {}
        self._resources = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def read(self, path: Path, start: int) -> bytes:
        """Return the line at this offset, with its line end."""
        with self._reader._errors_naming(path):  # noqa: SLF001  of the same module
            if path not in self._files:
                self._files[path] = self._resources.enter_context(self._reader._open(path))  # noqa: SLF001
                if path.suffix == ".gz":
                    packed = gzip.GzipFile(fileobj=self._files[path], mode="rb")
                    self._files[path] = self._resources.enter_context(packed)
            self._files[path].seek(start)
            line = self._files[path].readline(self._reader.longest_line + 2)
            check_size(len(line), self._reader.longest_line + 1)
            return line


class IndexedLines(Generic[K]):
    """
    JSON objects in one of the package's own JSON Lines files, by key; if several lines have the same key, the last
    counts.

    Only keys and offsets are kept in memory: each access reads and parses the line again, in any thread.
    """

    def __init__(self, path: Path, key: Callable[[dict[str, Any]], K | None]) -> None:
        self._path = path
        self._places: dict[K, int] = {}
        place = 0
        with path.open("rb") as file:
            for line in file:
                if (name := key(json.loads(line))) is not None:
                    self._places[name] = place
                place += len(line)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[K]:
        return iter(self._places)

    def place(self, key: K) -> int | None:
        """Return the offset of the line with this key; None if there is no such line."""
        return self._places.get(key)

    def get(self, key: K) -> dict[str, Any] | None:
        """Return the object with this key; None if there is no such line."""
        place = self._places.get(key)
        if place is None:
            return None
        with self._path.open("rb") as file:
            file.seek(place)
            line: dict[str, Any] = json.loads(file.readline())
            return line


def real(path: Path) -> Path:
    """
    Return the path with links resolved; circular links stay unchanged, whereas `Path.resolve` may
    raise an error for them.
    """
    return Path(os.path.realpath(path))


def inside(root: Path, path: Path) -> bool:
    """
    Return whether the path, with links resolved, is in the directory, or in the blobs of the hub cache that contains
    the directory.
    """
    try:
        folder = real(root)
        place = real(path)
    except ValueError:  # for example a null byte in a path from a third-party file
        return False
    return _is_below(folder, place)


def _is_below(folder: Path, place: Path) -> bool:
    """Return whether a path is in the directory or its hub cache's blobs; in both, links are resolved."""
    return place.is_relative_to(folder) or any(place.is_relative_to(store) for store in _stores(folder))


def _stores(folder: Path) -> Iterator[Path]:
    for parent in (folder, *folder.parents):
        repository = parent.parent.parent
        if parent.parent.name == _SNAPSHOTS and repository.name.startswith(_REPOSITORY):
            yield repository / _BLOBS


def parse_json(data: bytes | str, *, largest: int = LARGEST) -> Any:
    """Parse a JSON text; raise Unreadable for duplicate keys, and for numbers that JSON tools cannot represent."""
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    check_size(len(raw), largest)
    if len(raw) > MOST_VALUES and len(structure(raw, b"[{,")) > MOST_VALUES:
        raise Unreadable(f"cannot be read: more than {MOST_VALUES:,} values", reason="too_large")
    if too_deep(raw, DEEPEST):
        raise _too_deep()
    # Of texts in several lines, none is written as msgspec or `json.dumps` write a value by default.
    if b"\n" not in raw:
        with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            value = msgspec.json.decode(raw)
            # msgspec drops duplicate keys, so the value is complete only if encoding it gives the same text again.
            written = msgspec.json.encode(value)
            if written == raw or msgspec.json.format(written, indent=0) == raw:
                return value
    text = decode(data) if isinstance(data, bytes) else data
    try:
        return json.loads(
            text, parse_constant=_reject_constant, parse_float=finite, object_pairs_hook=_reject_duplicate_keys
        )
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        line = f"line {error.lineno} " if "\n" in text.strip() else ""
        place = f"{line}column {error.colno}" if text[error.pos :].strip() else "the end of the text"
        raise Unreadable(f"not JSON: {error.msg.removesuffix(' at')} at {place}") from None
    except ValueError as error:
        reason = "a number with too many digits" if "integer string conversion" in str(error) else error
        raise Unreadable(f"not JSON: {reason}") from None


def json_line(value: object) -> bytes:
    """Return a value as JSON on one line, in ASCII, with a line end; raise ValueError for NaN and infinity."""
    with contextlib.suppress(msgspec.MsgspecError, UnicodeError, TypeError, RecursionError):
        plain = msgspec.json.encode(value)
        # msgspec writes null for NaN and infinity, which then reads back as another value.
        if plain.isascii() and msgspec.json.decode(plain) == value:
            return plain + b"\n"
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"


def decode(data: bytes) -> str:
    """Decode UTF-8, with or without a byte order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        line = f"line {number} is " if b"\n" in data.strip() else ""
        raise Unreadable(f"cannot be read: {line}not UTF-8") from None


def check_size(size: int, largest: int) -> None:
    """Raise Unreadable if the size exceeds the maximum."""
    if size > largest:
        message = f"cannot be read: {size:,} bytes; expected at most {largest:,}"
        raise Unreadable(message, reason="too_large", found=size, expected=largest)


def finite(digits: str) -> float:
    """Parse a number; raise ValueError if it is too large for a double, because JSON has no infinity."""
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits[:20]} is beyond double precision")
    return number


def _too_deep() -> Unreadable:
    return Unreadable("nested too deeply to be read as JSON", reason="too_deep")


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"an object has the key {printable(twice, 60)!r} twice")
    return members


def private(path: Path) -> Path:
    """Return the path; if there is no such file, create an empty file that only the user can access."""
    path.touch(mode=_PRIVATE_FILE)
    return path


def make_private_folder(folder: Path, *, exist_ok: bool = True) -> None:
    """Make a directory and its missing parents, which only the user can access; existing directories stay unchanged."""
    for parent in reversed(folder.parents):
        if not parent.exists():
            parent.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
    folder.mkdir(mode=_PRIVATE_FOLDER, exist_ok=exist_ok)


def try_writing(folder: Path) -> None:
    """Write a file with the size of a record into the directory, and remove the file; raise OSError on failure."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.write(bytes(_TEST_BYTES))
        file.flush()


def write_atomically(path: Path, text: str | Iterable[str], *, shared: bool = False) -> None:
    """
    Replace a file's content, given as a whole or in parts, in one step; raise JournalError on failure.

    Only the user can read the file, unless `shared` is set, as for files that are committed to a repository.
    """
    part = path.parent / f"{path.name}.{os.getpid()}.part"
    opener = functools.partial(os.open, mode=_SHARED_FILE if shared else _PRIVATE_FILE)
    try:
        part.unlink(missing_ok=True)  # the content must not be written through an existing file or link
        with open(part, "x", encoding="utf-8", newline="", opener=opener) as file:
            file.writelines([text] if isinstance(text, str) else text)
        part.replace(path)
    except (OSError, ValueError) as error:
        raise JournalError(f"cannot write {path}: {unwritable(path, error)}", where=path) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def unwritable(path: Path, error: Exception) -> str:
    """Return a message that states why the file cannot be written and what to do."""
    if path.is_dir():
        return "it is a directory; name a file"
    if not path.parent.is_dir():
        return f"there is no directory {path.parent}; create it, or name another"
    return getattr(error, "strerror", None) or str(error)


def append_whole(file: FileIO, data: bytes, size: int) -> None:
    """
    Append the data to a file of this size; on failure, truncate the file to that size, because half a line would
    corrupt the next line.
    """
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except OSError:
        with contextlib.suppress(OSError):
            file.truncate(size)
        raise


@contextlib.contextmanager
def open_locked(path: Path) -> Iterator[FileIO]:
    """Open the file for reading and appending, with an exclusive lock; create the file if it is missing."""
    with path.open("a+b", buffering=0) as file:
        if sys.platform == "win32":
            import msvcrt

            file.seek(_LOCK_POSITION)  # no reader uses this range; Windows blocks readers of a locked range
            while True:
                try:
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                    break
                except OSError as error:  # the lock was not available for ten seconds
                    if error.errno != errno.EDEADLK:
                        raise
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        yield file
        # Closing the file releases the lock.
