"""What all parts of the plugin read: settings, session and folders, what a worker is handed, what a test asks for."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import CaseKey, safe_name
from pytest_jsbench.core.errors import JournalError
from pytest_jsbench.core.json_values import from_json, to_json
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.fixture.marker import MarkerArguments
from pytest_jsbench.plugin.session.cases import Marks
from pytest_jsbench.plugin.settings import Settings
from pytest_jsbench.records.journal import BATCHES, new_folder
from pytest_jsbench.run.handover import Handover
from pytest_jsbench.run.session import RunSession
from pytest_jsbench.settings.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The run as this process knows it."""

    settings: Settings
    session: RunSession
    #: the marks of single cases
    marks: Marks = field(default_factory=dict)
    #: xdist's name of this process; None in the only process and in the controller
    worker: str | None = None
    #: whether xdist may give this worker's tests to another, so that it must not call ahead of them
    steals: bool = False

    @property
    def plan(self) -> Plan:
        """The plan of the run."""
        return self.session.plan

    @property
    def handover(self) -> Handover:
        """The findings of its start."""
        return self.session.handover


RUN_CONTEXT = pytest.StashKey[RunContext]()


#: what a test asks through, and what its fixtures ask through for several tests; with variants both are parametrized
FIXTURE, SHARED = "jsbench", "jsbench_shared"


def variant_of(item: pytest.Item) -> str:
    """The variant that a project's test asks; empty where the run has one way to ask, or the test is not one."""
    callspec = getattr(item, "callspec", None)
    params = {} if callspec is None else callspec.params
    variant = params.get(FIXTURE, params.get(SHARED))
    return variant if isinstance(variant, str) else ""


def asks(item: pytest.Item) -> bool:
    """Say whether the test asks for the fixture, by itself or through another."""
    return isinstance(item, pytest.Function) and FIXTURE in item.fixturenames


def shares(item: pytest.Item) -> bool:
    """Say whether a fixture of the test asks for answers that several tests look at."""
    return isinstance(item, pytest.Function) and SHARED in item.fixturenames


def read_terms(item: pytest.Item) -> MarkerArguments:
    """The arguments of the test's markers; ContractError where one cannot be read."""
    return MarkerArguments.of((mark.args, mark.kwargs) for mark in item.iter_markers("jsbench"))


def key_of(nodeid: str, variant: str = "") -> CaseKey:
    """The case of a test, the same for all variants: its module, dotted, is the task."""
    path, _, name = nodeid.partition("::")
    name, _, parameters = name.partition("[")
    parameters = parameters.removesuffix("]")
    if variant:
        parameters = parameters.removeprefix(variant).removeprefix("-")
    name = name.replace("::", ".") + (f"-{parameters}" if parameters else "")
    return CaseKey(task=safe_name(path.removesuffix(".py").replace("/", ".")), id=safe_name(name))


def key_of_shared(name: str) -> CaseKey:
    """The case of an answer that tests share by this name; no two names are one case, or a further question of one."""
    key = CaseKey(task=SHARED, id=safe_name(name))
    return key if key.number == 1 else CaseKey(task=SHARED, id=safe_name(f"{name}/"))


_KEY = "jsbench"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInput:
    """The part of a run that a worker cannot find out for itself."""

    handover: Handover
    #: by the variant's name, the engine as the controller has prepared it
    prepared: Mapping[str, EngineConfig] = field(default_factory=dict)
    #: the cases, as the controller has written them down
    selected: Mapping[str, Any] = field(default_factory=dict)
    #: whether xdist may give a worker's tests to another, so that it must not call ahead of them
    steals: bool = False
    #: how many workers make the run's calls
    workers: int = 1

    @classmethod
    def of(cls, config: pytest.Config) -> WorkerInput | None:
        """Read what the controller has handed to this worker; None in any other process."""
        given = getattr(config, "workerinput", {})
        if _KEY not in given:
            return None
        return from_json(cls, json.loads(given[_KEY]), workers=int(given.get("workercount", 1)))

    def hand_to(self, node: Any) -> None:
        """Give it to a worker, as one JSON text: xdist carries builtins only."""
        node.workerinput[_KEY] = json.dumps(to_json(self))


_CACHED_RUNS = 5
#: what the name of a run, and of its folder, begins with
_RUN_ID = re.compile(r"\d{8}T\d{6}Z-.")
#: seconds after its last record in which a run that has not ended may still go on
_LONGEST_PAUSE = 24 * 60 * 60.0


def run_folder(config: pytest.Config, output: Path | None, run_id: str) -> Path | None:
    """A new folder for the run's files: below --jsbench-output, or in pytest's cache, where the last few runs stay."""
    if output is not None:
        return new_folder(output, run_id)
    cache = getattr(config, "cache", None)
    if cache is None:
        return None
    _refuse_links(config)
    try:
        parent = cache.mkdir("jsbench")
        if not any(parent.iterdir()):  # it is new, and ours
            parent.chmod(0o700)
        _prune(parent, keep=_CACHED_RUNS - 1)
        return new_folder(parent, run_id)
    except (OSError, JournalError):  # a cache that cannot be written is pytest's to report
        return None


def _refuse_links(config: pytest.Config) -> None:
    """Refuse a cache that a link leads elsewhere: a foreign repository may hold such a link."""
    root = config.rootpath
    given = Path(os.path.expandvars(config.getini("cache_dir"))).expanduser()
    cache = Path(os.path.abspath(root / given))  # noqa: PTH100  resolve() follows the links that are looked for
    kept = cache / "d" / "jsbench"
    named = root if cache.is_relative_to(root) else cache
    found = kept.resolve()
    if found != named.resolve() / kept.relative_to(named):
        message = f"{kept} leads to {found} by a link, through which no run is kept: remove it, or add --jsbench-output"
        raise pytest.UsageError(message)


def _prune(parent: Path, *, keep: int) -> None:
    """Remove the oldest runs; other folders stay, and so do runs that may be under way or have unfinished batches."""
    runs = sorted(entry for entry in parent.iterdir() if _is_run(entry))
    for folder in runs[: max(0, len(runs) - keep)]:
        if (folder / BATCHES).exists():
            from pytest_jsbench.run.batches import is_unfinished

            if is_unfinished(folder):
                continue
        newest = max(path.lstat().st_mtime for path in folder.glob("records*.jsonl"))
        if not (folder / "run.json").exists() and datetime.now(UTC).timestamp() - newest < _LONGEST_PAUSE:
            continue
        shutil.rmtree(folder, ignore_errors=True)


def _is_run(entry: Path) -> bool:
    records = entry / "records.jsonl"
    if not _RUN_ID.match(entry.name) or entry.resolve() != entry.parent.resolve() / entry.name:
        return False
    return entry.is_dir() and records.is_file() and not records.is_symlink()


def shared_folder(config: pytest.Config) -> Path:
    """A folder for what the processes of this run tell each other; it goes when the run ends."""
    folder = tempfile.mkdtemp(prefix="jsbench-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    return Path(folder)
