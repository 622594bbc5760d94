"""
The one door for foreign files: which may be read, how much of them, and how what is wrong with one is said.

Whoever wrote a file, it is read from inside the folder that was named and from nowhere else, only if it is a plain
file, and only up to a bound: in bytes (also after unpacking), in values and in depth.
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

from pytest_jsbench.core.errors import JournalError, JSBenchError, exhausted
from pytest_jsbench.core.json_values import structure, too_deep
from pytest_jsbench.core.text import printable

#: bytes of a file that is read whole
LARGEST = 100_000_000
#: bytes of a line, which is one row, record or answer
LONGEST_LINE = 10_000_000
#: bytes of a file that is read line by line
LARGEST_LINES = 10_000_000_000
#: bytes that may come of a packed file
LARGEST_UNPACKED = 200_000_000
#: arrays and objects within each other
DEEPEST = 500
#: values of a document
MOST_VALUES = 5_000_000

#: who may read what is written, whatever the umask allows beyond it
_PRIVATE_FILE, _PRIVATE_FOLDER, _SHARED_FILE = 0o600, 0o700, 0o666

#: bytes that are written to see whether a folder takes any
_TRIED = 1 << 14

#: a place after the end of any file that is locked
_BEYOND = (1 << 31) - 2

#: of the key of a line
K = TypeVar("K")

#: bytes that are passed over at a time where a line is too long to be read
_CHUNK = 1 << 20
#: the folder of a hub's cache that holds a repository's files, to which the names in its snapshots are links
_BLOBS, _SNAPSHOTS, _REPOSITORY = "blobs", "snapshots", "datasets--"


class Unreadable(JSBenchError):
    """Why a file, or a place in it, cannot be read: in a sentence, and in a word for programs."""

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
    """A line of a file; without its bytes where there are too many of them."""

    #: from 1
    number: int
    #: bytes before it
    start: int
    #: bytes of it, without its end
    size: int
    data: bytes | None
    #: whether an end of line follows; a process that was killed leaves a last line without one
    ended: bool


def here() -> Path:
    """The folder of the process, from which relative paths start now."""
    try:
        return Path.cwd()
    except OSError:  # it is gone: only what is named from the root can be read
        return Path()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReader:
    """Reads foreign files within bounds; whatever is wrong with one is an error in one line that names the file."""

    #: the folder that all of them must lie in; None for a file that the user named
    root: Path | None = None
    #: bytes of a file that is read whole
    largest: int = LARGEST
    longest_line: int = LONGEST_LINE
    error: type[JSBenchError] = Unreadable
    #: where relative paths start from, whichever folder a test goes to later
    start: Path = field(default_factory=here)

    def open(self, path: Path) -> BinaryIO:
        """The file itself, for a library that reads its format."""
        with self._naming(path):
            return self._open(path)

    def read_bytes(self, path: Path) -> bytes:
        """Read the whole file."""
        with self._naming(path), self._open(path) as file:
            check_size(os.fstat(file.fileno()).st_size, self.largest)
            data = file.read(self.largest + 1)
            check_size(len(data), self.largest)
            return data

    def read_part(self, path: Path, start: int, size: int) -> bytes:
        """So many bytes of the file, from one of its lines' start."""
        with self._naming(path), self._open(path) as file:
            check_size(size, self.longest_line)
            file.seek(start)
            return file.read(size)

    def read_text(self, path: Path) -> str:
        """The text that the file holds, in UTF-8, without its byte order mark."""
        data = self.read_bytes(path)
        with self._naming(path):
            return decode(data)

    def read_json(self, path: Path) -> Any:
        """The JSON value that the file holds."""
        data = self.read_bytes(path)
        with self._naming(path):
            return parse_json(data, largest=self.largest)

    def read_lines(self, path: Path) -> Iterator[Line]:
        """The lines of the file, unpacked where its name ends in `.gz`; those that are blank too."""
        with self._naming(path), self._open(path) as file:
            if path.suffix != ".gz":
                yield from self._lines(file, LARGEST_LINES)
                return
            with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
                yield from self._lines(unpacked, LARGEST_UNPACKED)

    def read_json_lines(self, path: Path) -> Iterator[tuple[Line, Any]]:
        """The JSON value of each line that is not blank."""
        for line in self.read_lines(path):
            with self._naming(f"{path}:{line.number}"):
                if line.data is None:
                    check_size(line.size, self.longest_line)
                elif line.data.strip():
                    yield line, parse_json(line.data, largest=self.longest_line)

    def _open(self, path: Path) -> BinaryIO:
        place = self.start / path
        if self.root is not None and not inside(self.start / self.root, place):
            raise Unreadable(f"leads out of {self.root}", reason="outside")
        # neither a pipe nor a device keeps whoever opens it waiting
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(real(place), flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise Unreadable("cannot be read: not a file", reason="not_a_file")
        return os.fdopen(descriptor, "rb")

    def _lines(self, file: BinaryIO | gzip.GzipFile, largest: int) -> Iterator[Line]:
        start = 0
        for number, line in enumerate(iter(lambda: file.readline(self.longest_line + 2), b""), start=1):
            size, end = len(line), line
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
    def _naming(self, place: object) -> Iterator[None]:
        try:
            yield
        except Unreadable as unreadable:
            raise self._error(place, unreadable) from None
        except OSError as error:
            if why := exhausted(error):  # no fault of the file's: a case in it is not a broken one
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
    Lines of files, each by its file and the bytes before it.

    Whoever reads many lines makes one, calls it from one thread, and closes it; until then each file stays open.
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
        """The line that begins there, with its end."""
        with self._reader._naming(path):  # noqa: SLF001  of the same module
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
    The JSON objects of one of our own files, a line each, by a key; of two lines of one key the later counts.

    Only keys and places are held; a line is read and parsed again each time that it is asked for, from any thread.
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
        """The bytes before the line of that key; None where there is none."""
        return self._places.get(key)

    def get(self, key: K) -> dict[str, Any] | None:
        """The object of that key; None where there is none."""
        place = self._places.get(key)
        if place is None:
            return None
        with self._path.open("rb") as file:
            file.seek(place)
            line: dict[str, Any] = json.loads(file.readline())
            return line


def real(path: Path) -> Path:
    """The path without links; as it is where they go in circles, over which `Path.resolve` raises in some Pythons."""
    return Path(os.path.realpath(path))


def inside(root: Path, path: Path) -> bool:
    """True where the path, with every link followed, lies in the folder; a hub cache's own store counts as such."""
    try:
        folder, place = real(root), real(path)
    except ValueError:  # such as a null byte in what a foreign file calls a path
        return False
    return place.is_relative_to(folder) or any(place.is_relative_to(store) for store in _stores(folder))


def _stores(folder: Path) -> Iterator[Path]:
    for parent in (folder, *folder.parents):
        repository = parent.parent.parent
        if parent.parent.name == _SNAPSHOTS and repository.name.startswith(_REPOSITORY):
            yield repository / _BLOBS


def parse_json(data: bytes | str, *, largest: int = LARGEST) -> Any:
    """The JSON value of a text, in which no object has a key twice and each number is one that JSON tools can hold."""
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    check_size(len(raw), largest)
    if len(raw) > MOST_VALUES and len(structure(raw, b"[{,")) > MOST_VALUES:
        raise Unreadable(f"holds more than {MOST_VALUES:,} values", reason="too_large")
    if too_deep(raw, DEEPEST):
        raise _too_deep()
    # no white space follows the first key in what `json_line` has written
    is_compact = not raw[raw.find(b":") + 1 :][:1].isspace()
    with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
        # msgspec leaves out a key that stands twice: only where it writes the same text again has it read all of that
        if is_compact and msgspec.json.encode(value := msgspec.json.decode(raw)) == raw:
            return value
    text = decode(data) if isinstance(data, bytes) else data
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=finite, object_pairs_hook=_unique)
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        line = f"line {error.lineno} " if "\n" in text.strip() else ""
        place = f"{line}column {error.colno}" if text[error.pos :].strip() else "the end of the text"
        raise Unreadable(f"not JSON: {error.msg.removesuffix(' at')} at {place}") from None
    except ValueError as error:
        reason = "a number of too many digits" if "integer string conversion" in str(error) else error
        raise Unreadable(f"not JSON: {reason}") from None


def json_line(value: object) -> bytes:
    """The JSON text of a value on one line, in ASCII, with its end; ValueError where a number is none."""
    # msgspec writes null for a number that is none, and refuses a lone surrogate
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")
    with contextlib.suppress(msgspec.MsgspecError, UnicodeError):
        # of the same value a text that `parse_json` reads several times as fast
        if (plain := msgspec.json.encode(value)).isascii():
            text = plain
    return text + b"\n"


def decode(data: bytes) -> str:
    """The text of UTF-8 bytes, with or without a byte order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        line = f"line {number} is " if b"\n" in data.strip() else ""
        raise Unreadable(f"cannot be read: {line}not UTF-8") from None


def check_size(size: int, largest: int) -> None:
    """Unreadable where that many bytes are too many."""
    if size > largest:
        message = f"cannot be read: {size:,} bytes; expected at most {largest:,}"
        raise Unreadable(message, reason="too_large", found=size, expected=largest)


def finite(digits: str) -> float:
    """The number; ValueError where it is beyond double precision, so that no JSON could hold what would come of it."""
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits[:20]} is beyond double precision")
    return number


def _too_deep() -> Unreadable:
    return Unreadable("nested too deeply to be read as JSON", reason="too_deep")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"an object has the key {printable(twice, 60)!r} twice")
    return members


def private(path: Path) -> Path:
    """The path, at which there is a file from now on; a new one is for its user alone, one that was there as it was."""
    path.touch(mode=_PRIVATE_FILE)
    return path


def make_private_folder(folder: Path, *, exist_ok: bool = True) -> None:
    """Make a folder, and what is missing above it, for its user alone; folders that were there stay as they were."""
    for parent in reversed(folder.parents):
        if not parent.exists():
            parent.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
    folder.mkdir(mode=_PRIVATE_FOLDER, exist_ok=exist_ok)


def try_writing(folder: Path) -> None:
    """Write a file of a record's size into the folder, and remove it; OSError where that cannot be done."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.write(bytes(_TRIED))
        file.flush()


def write_atomically(path: Path, text: str | Iterable[str], *, shared: bool = False) -> None:
    """
    Replace a file's content, given as a whole or in parts, in one step; JournalError when the disk will not.

    The file is for its user alone, unless it is made to be shared, as what is committed to a repository is.
    """
    part = path.parent / f"{path.name}.{os.getpid()}.part"
    opener = functools.partial(os.open, mode=_SHARED_FILE if shared else _PRIVATE_FILE)
    try:
        part.unlink(missing_ok=True)  # whatever stands there, a link to elsewhere too, is not written into
        with open(part, "x", encoding="utf-8", newline="", opener=opener) as file:
            file.writelines([text] if isinstance(text, str) else text)
        part.replace(path)
    except (OSError, ValueError) as error:
        raise JournalError(f"cannot write {path}: {unwritable(path, error)}", where=path) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def unwritable(path: Path, error: Exception) -> str:
    """Why the file cannot be written, and what to do."""
    if path.is_dir():
        return "it is a folder; name a file"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}; make it, or name another"
    return getattr(error, "strerror", None) or str(error)


def append_whole(file: FileIO, data: bytes, size: int) -> None:
    """Add the data to a file of that size, or leave it as it was: half a line would tear the next one too."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except OSError:
        with contextlib.suppress(OSError):
            file.truncate(size)
        raise


@contextlib.contextmanager
def locked(path: Path) -> Iterator[FileIO]:
    """The file, to be read and added to by nobody else who asks so; made where it is not there."""
    with path.open("a+b", buffering=0) as file:
        if sys.platform == "win32":
            import msvcrt

            file.seek(_BEYOND)  # where nobody reads, for there a lock holds readers off too
            while True:
                try:
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                    break
                except OSError as error:  # it gives up after ten seconds
                    if error.errno != errno.EDEADLK:
                        raise
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        yield file
        # whoever closes a file gives its lock away
