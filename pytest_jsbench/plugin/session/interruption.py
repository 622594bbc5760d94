"""A run that is interrupted: no process of it begins another call, from the signal on."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


class Interruption:
    """
    Lets no call begin after Ctrl-C or SIGTERM, and has SIGTERM end the session as Ctrl-C does.

    The activation makes one in every process; a cleanup of pytest's configuration puts the handlers of before back.
    A second SIGTERM does what it would have done without us. The handler takes no lock, which the main thread may hold
    where it is interrupted: it makes a file, for which each `Admission` of the run looks before a call.
    """

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self._file = file
        self._before: dict[int, Any] = {}
        if threading.current_thread() is not threading.main_thread():  # where no handler can be set
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if callable(before) or (number == signal.SIGTERM and before is signal.SIG_DFL):
                self._before[number] = before
                signal.signal(number, self._interrupt)
        config.add_cleanup(self._put_back)

    def _interrupt(self, number: int, frame: object) -> None:
        __tracebackhide__ = True  # what is shown is where the session was
        before = self._before[number]
        try:
            if not callable(before):
                signal.signal(number, before)
                raise KeyboardInterrupt(signal.Signals(number).name)
            before(number, frame)
        except BaseException:
            self.pytest_keyboard_interrupt()
            raise

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Have all processes stop calling before anybody describes where the session was, which takes a second."""
        with suppress(OSError):
            self._file.touch()

    def _put_back(self) -> None:
        for number, before in self._before.items():
            if signal.getsignal(number) == self._interrupt:
                signal.signal(number, before)
