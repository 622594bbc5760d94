from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.core.child_process import ChildProcess, KeptChild, environment
from pytest_jsbench.core.guarded_calls import GuardedCalls
from pytest_jsbench.engines.decoding.child import LibrarySettings
from pytest_jsbench.engines.decoding.process import LibraryProcess
from pytest_jsbench.engines.local import engine as local_engine
from pytest_jsbench.engines.local.engine import serving
from pytest_jsbench.engines.local.server import ServerSettings
from pytest_jsbench.verdicts import Judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECRET = "not-for-children-0815"
#: names that secrets have, and one that no list of such names would hold
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "NETRC", "LLAMA_API_KEY", "XYZZY")


@contextlib.contextmanager
def judging() -> Iterator[int]:
    with Judge() as judge:
        judge.inspect(True)
        yield pid(judge._guard)


@contextlib.contextmanager
def called() -> Iterator[int]:
    calls = GuardedCalls()
    yield calls.call("tests.core.working:process", seconds=30)
    calls.close()


@contextlib.contextmanager
def decoding() -> Iterator[int]:
    settings = LibrarySettings(library="moody", model="well", memory=1 << 30)
    library = LibraryProcess(settings, start_timeout=30, module="tests.engines.decoding.moody")
    yield library.ask({"do": "work"}, timeout=30, doing="work")["pid"]
    library.close()


@contextlib.contextmanager
def serving_a_model() -> Iterator[int]:
    settings = ServerSettings(model="m.gguf", alias="m", slots=1, context=64, threads=1)
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setattr(local_engine, "_SERVER_MODULE", "tests.core.standing_in_for_a_server")
        yield int(stack.enter_context(serving(settings, timeout=30)).address)


def pid(kept: KeptChild) -> int:
    child = kept._child
    assert isinstance(child, ChildProcess)
    return child._process.pid


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the system does not show environments")
@pytest.mark.parametrize("child", [judging, called, decoding, serving_a_model])
def test_no_child_is_given_a_secret_of_the_environment(
    child: Callable[[], contextlib.AbstractContextManager[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with child() as number:
        assert number != os.getpid()
        given = Path(f"/proc/{number}/environ").read_bytes()
    assert b"OMP_NUM_THREADS=1" in given
    assert SECRET.encode() not in given


def test_what_a_child_needs_of_the_environment_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "OPENBLAS_CORETYPE", "TMPDIR", "PYTHONHOME", "SYSTEMROOT"):
        monkeypatch.setenv(name, "needed")
    for name in ("PYTHONPATH", "PYTHONSTARTUP", "PYTHONINSPECT", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "in the way")
    given = environment()
    assert [name for name in given if given[name] == "in the way"] == []
    assert {"LC_ALL", "OPENBLAS_CORETYPE", "TMPDIR", "PYTHONHOME", "SYSTEMROOT", "PATH"} <= given.keys()


@pytest.mark.skipif(sys.platform == "win32", reason="of POSIX")
def test_a_child_whose_input_ends_takes_nothing_down(tmp_path: Path) -> None:
    calls, left = GuardedCalls(), tmp_path / "left"
    calls.call("tests.core.working:write_at_exit", str(left), seconds=30)

    calls.close()

    assert not left.exists()


def test_a_child_leaves_no_memory_on_disk_when_it_dies() -> None:
    import resource

    calls = GuardedCalls()
    try:
        kind = resource.RLIMIT_CORE
        assert calls.call("tests.core.working:soft_limit", kind, seconds=30) == 0
    finally:
        calls.close()
