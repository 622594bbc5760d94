"""Find an exporter by name: built in, an installed package's entry point, or `package.module:function`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_jsbench.core.errors import ExportError, JSBenchError, nearest
from pytest_jsbench.core.extensions import find_function, installed, of_lab
from pytest_jsbench.core.files import make_private_folder
from pytest_jsbench.core.text import described, printable
from pytest_jsbench.metrics.summary import Summary
from pytest_jsbench.records.outcomes import Run

ENTRY_POINTS = "pytest_jsbench.exporters"
EVERY_EVAL_EVER = "every_eval_ever"
#: functions of the lab
_BUILT_IN = {
    EVERY_EVAL_EVER: "interchange.every_eval_ever:write",
    "csv": "interchange.tables:write_csv",
    "parquet": "interchange.tables:write_parquet",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """A format in which a run can be written."""

    name: str
    #: where it comes from, for messages
    origin: str
    #: what is called with the path that the user gave, the run and its summary; it may return the path it wrote
    function: Callable[..., object]

    def write(self, path: Path, run: Run, summary: Summary, **more: object) -> Path:
        """Write the run and return its path; ExportError where the exporter raises. `more` is its own."""
        try:
            make_private_folder(path.parent)
            written = self.function(path, run, summary, **more)
        except JSBenchError:
            raise
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # pytest.fail and sys.exit too: the run's other files must still be written
            message = f"exporter '{self.name}', {self.origin}, could not write {path}: {described(error)}"
            raise ExportError(message, found=described(error), where=self.origin) from error
        return written if isinstance(written, Path) else path


def find(name: str) -> Exporter:
    """The exporter of that name; ExportError offers the nearest where there is none."""
    if name == EVERY_EVAL_EVER:
        return _built_in(name)
    points = installed(ENTRY_POINTS, kind="exporter", error=ExportError)
    # an installed one of its name stands before a table, as it did when there were none
    if (installed_one := find_function(name, points, kind="exporter", error=ExportError)) is not None:
        return _exporter(name, *installed_one)
    if name in _BUILT_IN:
        return _built_in(name)
    names = {*_BUILT_IN, *points}
    message = (
        f"unknown exporter '{printable(name)}': {nearest(name, names)}; one of your own is package.module:function"
    )
    raise ExportError(message, found=name, expected=sorted(names))


def _built_in(name: str) -> Exporter:
    module, _, function = _BUILT_IN[name].partition(":")
    return Exporter(name=name, origin="built in", function=getattr(of_lab(module), function))


def _exporter(name: str, source: str, found: object) -> Exporter:
    if not callable(found):
        message = (
            f"exporter '{name}', {source}, is a {type(found).__name__}; "
            "expected a function that takes a path, a run and its summary"
        )
        raise ExportError(message, found=type(found).__name__, expected="a function", where=source)
    return Exporter(name=name, origin=source, function=found)
