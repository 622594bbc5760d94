from __future__ import annotations

import errno
import pickle
from pathlib import Path

import pytest

from pytest_jsbench.core.errors import DatasetError, JSBenchError, UnknownEngine, describe_exhaustion, nearest
from pytest_jsbench.core.files import FileReader


def test_error_has_found_expected_and_where() -> None:
    error = UnknownEngine("no engine 'opnai'", found="opnai", expected=("anthropic", "openai"), option="engine")
    assert (error.found, error.expected) == ("opnai", ("anthropic", "openai"))
    assert error.option == error.where == "engine"
    assert str(error) == "no engine 'opnai'"
    assert error.args == ("no engine 'opnai'",)
    without = JSBenchError("it broke")
    assert (without.found, without.expected, without.where, str(JSBenchError())) == (None, None, None, "")


@pytest.mark.parametrize("error", [DatasetError("empty", found=0, where="rows.jsonl"), DatasetError("empty")])
def test_an_error_is_the_same_in_another_process(error: DatasetError) -> None:
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is DatasetError
    assert str(arrived) == "empty"
    assert vars(arrived) == vars(error)


def test_nearest_suggests_a_similar_name_first_and_alone_if_there_are_many() -> None:
    known = ["stream", "temperature", "timeout"]

    assert nearest("temp", known) == "did you mean 'temperature'? (one of stream, temperature, timeout)"
    assert nearest("nothing", known) == "expected one of stream, temperature, timeout"
    many = [f"tgt_p{part}" for part in range(99)]
    assert nearest("tgt_p500", many) == "did you mean 'tgt_p50'? (one of 99)"
    assert nearest("nothing", many) == f"expected one of {', '.join(sorted(many))}"


def test_file_error_names_the_file_with_line_or_size_and_limit(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("1\n{\n")
    with pytest.raises(DatasetError) as too_large:
        FileReader(largest=3, error=DatasetError).read_json(path)
    assert (too_large.value.where, too_large.value.found, too_large.value.expected) == (path, 4, 3)
    with pytest.raises(DatasetError) as torn:
        list(FileReader(error=DatasetError).read_json_lines(path))
    assert torn.value.where == f"{path}:2"


def wrapped(error: BaseException) -> BaseException:
    outer = JSBenchError("the judge did not start")
    outer.__cause__ = error
    return outer


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "out of memory;"),
        (RuntimeError("can't start new thread"), "out of threads (ulimit -u);"),
        (OSError(errno.EMFILE, "Too many open files"), "out of open files (ulimit -n);"),
        (wrapped(OSError(errno.ENOMEM, "Cannot allocate memory")), "out of memory;"),
        (wrapped(wrapped(BlockingIOError(errno.EAGAIN, "fork"))), "out of processes or threads (ulimit -u);"),
        (RuntimeError("dictionary changed size"), ""),
        (OSError(errno.ENOENT, "no such file"), ""),
        (wrapped(ValueError()), ""),
    ],
)
def test_exhausted_names_the_resource_and_ignores_other_errors(error: BaseException, message: str) -> None:
    assert (message in describe_exhaustion(error)) if message else describe_exhaustion(error) == ""
