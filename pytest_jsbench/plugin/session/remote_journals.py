"""The journals of workers on other machines: kept there while a run lasts, and collected by the run that goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.files import make_private_folder, private
from pytest_jsbench.core.text import described, printable
from pytest_jsbench.plugin.session import journal_keeper
from pytest_jsbench.runs import journal

if TYPE_CHECKING:
    from pytest_jsbench.runs.records import RunMetadata

#: seconds in which another machine answers; it waits half a minute for the end of a killed run's workers
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJournal:
    """One worker's journal on another machine."""

    host: str
    folder: str
    name: str

    def __str__(self) -> str:
        return printable(f"{self.host}:{self.folder}/{self.name}", 300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Journals of an earlier run's workers, copied to this machine."""

    files: tuple[Path, ...] = ()
    journals: tuple[RemoteJournal, ...] = ()


def is_elsewhere(spec: Any) -> bool:
    """Whether a worker that xdist starts so may be on another machine."""
    return not getattr(spec, "popen", None)


def keep(gateway: Any, metadata: RunMetadata) -> RemoteJournal:
    """Let a worker keep a journal where it is, before it starts; JSBenchError where it cannot."""
    run = f"{metadata.run_id}.{str(metadata.uuid)[:8]}"
    _, (folder, name) = next(_ask(gateway, "keep", run, gateway.id))
    return RemoteJournal(host=_host(gateway.spec), folder=folder, name=name)


def remove(gateway: Any, journals: list[RemoteJournal]) -> None:
    """Remove journals from a worker's machine: what they hold is on this one; JSBenchError where it does not answer."""
    list(_ask(gateway, "remove", [(found.folder, found.name) for found in journals]))


def fetch(config: pytest.Config, runs: frozenset[str], into: Path) -> Fetched:
    """
    Copy what the workers of earlier runs have left on the machines that this session uses too.

    JSBenchError where a machine does not answer, or a worker of such a run is still at work.
    """
    if config.getoption("dist", "no") == "no" or not config.getoption("tx", None):
        return Fetched()
    from xdist.workermanage import NodeManager

    folder = into / "collected"
    make_private_folder(folder)
    found: list[tuple[RemoteJournal, Path]] = []
    nodes = NodeManager(config)
    try:
        for spec in _machines(nodes.specs):
            for kind, value in _ask(_reach(nodes.group, spec), "collect", sorted(runs)):
                if kind == "path":
                    path = private(folder / f"records.{len(found)}.jsonl")
                    found.append((RemoteJournal(host=_host(spec), folder=value[0], name=value[1]), path))
                else:
                    _append(found[-1][1], value)
    finally:
        nodes.teardown_nodes()
    return Fetched(files=tuple(path for _, path in found), journals=tuple(remote for remote, _ in found))


def _reach(group: Any, spec: Any) -> Any:
    from execnet.gateway_bootstrap import HostNotFound

    try:
        return group.makegateway(spec)
    except (HostNotFound, OSError, EOFError) as error:
        host = _host(spec)
        message = f"{host} cannot be reached, and may have records of the earlier run: {described(error)}"
        raise JSBenchError(message, where=host) from error


def _append(path: Path, part: bytes) -> None:
    with path.open("ab") as file:
        file.write(part)
        if file.tell() > journal.LARGEST:
            message = f"a machine sends a journal of more than {journal.LARGEST:,} bytes"
            raise JSBenchError(message, expected=journal.LARGEST)


def _machines(specs: list[Any]) -> list[Any]:
    """One of xdist's specifications for each machine that is not this one."""
    found = {str(spec).replace(f"//id={spec.id}", ""): spec for spec in specs if is_elsewhere(spec)}
    return list(found.values())


def _host(spec: Any) -> str:
    """The machine, as an ssh command names it."""
    return str(spec.ssh or spec.socket or spec).split()[-1]


def _ask(gateway: Any, *request: Any) -> Iterator[tuple[Any, Any]]:
    """What the machine sends back, to its end."""
    host = _host(gateway.spec)
    channel = gateway.remote_exec(journal_keeper)
    try:
        channel.send(request)
        while True:
            kind, value = channel.receive(_PATIENCE)
            if kind == "problem":
                message = f"{host}: {value}"
                raise JSBenchError(message, where=host)
            yield kind, value
    except EOFError:
        channel.waitclose(_PATIENCE)
    except (OSError, channel.TimeoutError, channel.RemoteError) as error:
        message = f"{host} does not answer: {described(error)}"
        raise JSBenchError(message, where=host) from error
