"""
Read rows of Parquet files through a child process, and ahead of their use, so that the process can end.

The child calls the functions of `parquet_tables`, which is the only module that imports pyarrow.
"""

from __future__ import annotations

import base64
import bisect
import threading
import zlib
from contextlib import suppress
from typing import Any, NamedTuple

from pytest_jsbench.core.child_process import ChildNotStarted
from pytest_jsbench.core.errors import DatasetError, describe_exhaustion
from pytest_jsbench.core.files import Unreadable
from pytest_jsbench.core.guarded_calls import BoundExceeded, CallBroke, GuardedCalls
from pytest_jsbench.core.json_values import loads
from pytest_jsbench.datasets.sources.parquet_child import TABLES

#: Time limit for each call of the child process in seconds.
SECONDS = 300.0
#: Number of rows in a block, which are read at once.
_ROWS_AT_ONCE = 16
#: Number of blocks of rows to keep in memory, for threads that read different blocks at the same time.
_KEPT = 8
#: Number of blocks that have to be read in sequence before further ones are read ahead; a run of a few cases of each
#: task reads only these.
_SEQUENCE = 16
#: Number of blocks by which threads may read out of order.
_DISORDER = 4
#: Maximum size in bytes of the compressed blocks that are read ahead: enough for the 9,557 schemas of JSONSchemaBench.
_MOST_AHEAD = 12 << 20
#: Size in bytes of JSON with which a call that reads ahead ends, so that other calls do not wait for long.
_AHEAD_AT_ONCE = 1 << 20


class RowGroup(NamedTuple):
    """A row group of a file."""

    #: Root directory of the file, start directory for a relative name, and file name.
    places: tuple[str, str, str]
    number: int


#: A group, and the number of a block of rows in it.
_Block = tuple[RowGroup, int]


class RowReader:
    """
    Reads the rows of Parquet files in a child process; can be used from any thread.

    If rows are read in the order of listing, a thread reads the following rows ahead, keeps them compressed, and ends
    the child, which takes 60 to 110 MB. A row that is not kept starts the child again.
    """

    def __init__(self, calls: GuardedCalls, *, most_ahead: int = _MOST_AHEAD, at_once: int = _AHEAD_AT_ONCE) -> None:
        """Read ahead up to `most_ahead` compressed bytes, with about `at_once` bytes of JSON per call of the child."""
        self._calls = calls
        self._most_ahead = most_ahead
        self._at_once = at_once
        #: Locked while a block is read, so that threads which need the same block read it only once.
        self._reading = threading.Lock()
        #: Position of the first block of each group, in the order of listing, and position after the last block.
        self._starts: list[int] = []
        self._groups: list[RowGroup] = []
        self._places: dict[RowGroup, int] = {}
        self._end = 0
        #: The last blocks; None if one of the rows is unreadable, or all of them exceed a limit.
        self._blocks: dict[_Block, list[dict[str, Any]] | None] = {}
        #: Compressed blocks that were read ahead.
        self._ahead: dict[_Block, bytes] = {}
        #: Position of the last block that was read, and number of blocks that were read in sequence.
        self._last = 0
        self._sequence = 0
        self._thread: threading.Thread | None = None
        #: Whether a row could not be read ahead, after which rows are read only when they are needed.
        self._failed = False

    def add_group(self, group: RowGroup, rows: int) -> None:
        """Add a group after those that were listed before; if it was listed before, its file may have changed."""
        with self._reading:
            if group in self._places:
                self._failed = False
                self._blocks.clear()
                self._ahead.clear()
            self._places[group] = self._end
            self._groups.append(group)
            self._starts.append(self._end)
            self._end += -(-rows // _ROWS_AT_ONCE)

    def call(self, function: str, places: tuple[str, str, str], *arguments: object) -> Any:
        """Call a function of `parquet_tables` in the child; raise DatasetError with one line if that fails."""
        cause: Exception
        try:
            return self._calls.call(f"{TABLES}:{function}", *places, *arguments, seconds=SECONDS)
        except CallBroke as error:
            cause = error
            kind, _, problem = str(error).partition(": ")
            message = problem if kind == DatasetError.__name__ else f"cannot read {places[2]}: {error}"
        except (BoundExceeded, ChildNotStarted) as error:
            cause = error
            message = f"cannot read {places[2]}: {error}"
        raise DatasetError(message) from cause

    def read_row(self, group: RowGroup, index: int) -> dict[str, Any]:
        """Read a row of a group, together with adjacent rows, which are likely to be read next."""
        number, offset = divmod(index, _ROWS_AT_ONCE)
        key = group, number
        with self._reading:
            if key in self._blocks:
                block = self._blocks.pop(key)
            else:
                block = self._read_block(key)
                self._note(key)
            self._blocks[key] = block
            if len(self._blocks) > _KEPT:
                del self._blocks[next(iter(self._blocks))]
        if block is not None:
            return block[offset]
        try:
            row: dict[str, Any] = self.call("read_rows", group.places, group.number, index, 1)[0]
        except DatasetError as error:
            if describe_exhaustion(error):
                raise
            raise Unreadable(str(error)) from None
        return row

    def _read_block(self, key: _Block) -> list[dict[str, Any]] | None:
        """Return a block that was read ahead, or read it."""
        block: list[dict[str, Any]]
        if (packed := self._ahead.pop(key, None)) is not None:
            block = loads(zlib.decompress(packed))
            return block
        group, number = key
        try:
            block = self.call("read_rows", group.places, group.number, number * _ROWS_AT_ONCE, _ROWS_AT_ONCE)
        except DatasetError as error:
            if describe_exhaustion(error):
                raise
            return None
        return block

    def _note(self, key: _Block) -> None:
        """Note that a block was read; start to read ahead if it is one of a sequence and the next one is not kept."""
        group, number = key
        position = self._places[group] + number
        steps = position - self._last
        self._last = position
        if abs(steps) > _DISORDER:
            self._sequence = 0
        elif steps >= 0:  # a block that a thread reads a little late counts neither way
            self._sequence += 1
        is_next_kept = position + 1 >= self._end or self._is_kept(self._key_at(position + 1))
        if self._failed or self._sequence < _SEQUENCE or is_next_kept:
            return
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._read_ahead, name="jsbench-read-ahead", daemon=True)
            with suppress(RuntimeError):  # no thread can be started
                thread.start()
                self._thread = thread

    def _is_kept(self, key: _Block) -> bool:
        """Return whether a block was read ahead, or was read by another thread."""
        return key in self._ahead or key in self._blocks

    def _key_at(self, position: int) -> _Block:
        place = bisect.bisect_right(self._starts, position) - 1
        return self._groups[place], position - self._starts[place]

    def _read_ahead(self) -> None:
        """
        Read blocks from the last one on, until enough are kept, and end the child; if that fails, keep the child, and
        read no further blocks ahead.
        """
        with self._reading:
            self._ahead.clear()  # what was not read in its turn
        position = 0
        size = 0
        try:
            while size < self._most_ahead and (position := max(position, self._last + 1)) < self._end:
                group, number = self._key_at(position)
                limits = number * _ROWS_AT_ONCE, _ROWS_AT_ONCE, self._at_once
                texts: list[str] = self.call("pack_rows", group.places, group.number, *limits)
                if not texts:  # the file has become shorter
                    self._failed = True
                    return
                packed = [base64.b64decode(text) for text in texts]
                with self._reading:
                    read = max(0, self._last + 1 - position)  # meanwhile, by other threads
                    self._ahead |= {(group, number + at): packed[at] for at in range(read, len(packed))}
                position += len(packed)
                size += sum(map(len, packed))
                if not self._calls.is_running():  # the run has ended
                    return
        except DatasetError:  # reported when the row is read
            self._failed = True
            return
        except ValueError:  # the end of the run has closed the child's files during the call
            return
        self._calls.let_go()


class TableRow:
    """Reads one row; a file has one for each row, so it is small."""

    __slots__ = ("_group", "_index", "_reader")

    def __init__(self, reader: RowReader, group: RowGroup, index: int) -> None:
        self._reader = reader
        self._group = group
        self._index = index

    def __call__(self) -> dict[str, Any]:
        """Return the row, by column."""
        return self._reader.read_row(self._group, self._index)
