"""Whether a run calls its engine, records what it says, or replays what was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_jsbench.plugin.options import path_of, value_of


def read_recording(config: pytest.Config) -> tuple[Path | None, Path | None]:
    """
    Where answers are recorded, and where they are replayed from, one of them at most; pytest.UsageError for both.

    A replay in the ini file is what a run does unless an engine, or a recording, is asked for on the command line.
    """
    typed = {name for name in ("engine", "record", "replay") if config.getoption(f"jsbench_{name}") is not None}
    if "replay" in typed and len(typed) > 1:
        other = sorted(typed - {"replay"})[0]
        message = f"--jsbench-replay asks recorded answers and --jsbench-{other} an engine; leave one of them out"
        raise pytest.UsageError(message)
    replay = path_of(config, "replay")
    if replay is not None and not typed & {"engine", "record"}:
        return None, replay
    if value_of(config, "engine") is None:
        message = "--jsbench-record needs an engine to record: --jsbench-engine=NAME, or jsbench_engine in the ini file"
        raise pytest.UsageError(message)
    return path_of(config, "record"), None
