"""A clock that advances only when a test says so, or while something waits for it."""

from __future__ import annotations

from collections.abc import Callable


class Clock:
    """A clock to inject as `clock=clock.read`, and with a `wait` or `sleep` that takes no time."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        #: Called during the first wait.
        self.meanwhile: Callable[[], object] = int

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        meanwhile, self.meanwhile = self.meanwhile, int
        meanwhile()

    def wait(self, _: object, seconds: float) -> None:
        """Advance, as if an event was not set in this time."""
        self.sleep(seconds)
