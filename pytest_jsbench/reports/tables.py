"""Convert a run to tables for pandas and Arrow: its attempts, one per row, and its metrics, with one row per task."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import ExportError, JournalError, JSBenchError, MissingRequirement
from pytest_jsbench.core.files import private, unwritable, write_atomically
from pytest_jsbench.core.generations import COUNTS, Completion, Declined, Failed, tpot_ms
from pytest_jsbench.metrics import prices
from pytest_jsbench.records.questions import each

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.records.facts import AttemptFacts
    from pytest_jsbench.records.records import AnsweredBy, Attempt, Record
    from pytest_jsbench.records.runs import Run

Row = Mapping[str, Any]

#: Columns of the table of attempts, with their types; all are nullable, and lists and objects are JSON text.
COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("task", "id"), str),
    "repeat": int,
    **dict.fromkeys(("variant", "engine", "model"), str),
    # null for a case with an invalid schema, so that the mean of the column is the pass rate
    "passed": bool,
    **dict.fromkeys(("failure_type", "reason", "message"), str),
    # null if there is no JSON document to validate
    "valid": bool,
    "disputed": bool,
    # null if no values are expected, or if there is no answer
    **dict.fromkeys(("values_right", "values_expected", "values_invented"), int),
    # null unless a grammar decided about labelled answers
    **dict.fromkeys(("valid_instances", "valid_rejected", "invalid_instances", "invalid_accepted"), int),
    # completion, declined, failed or decided; null if the attempt has no record
    "generation": str,
    # reason why the attempt has no record; `unknown` if the run was killed or only loaded
    "missing": str,
    **dict.fromkeys(("text", "reasoning", "finish_reason", "fault", "said"), str),
    **dict.fromkeys(("ttft", "tgt", "gct", "tpot_ms", "reasoning_time", "ttft_lateness"), float),
    **dict.fromkeys(("grammar_compilation", "compile_time", "queue_s"), float),
    **dict.fromkeys(("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"), int),
    **dict.fromkeys(("cache_write_tokens", "cache_write_1h_tokens"), int),
    "service_tier": str,
    "cost": float,
    "retries": int,
    "temperature": float,
    **dict.fromkeys(("max_tokens", "seed"), int),
    **dict.fromkeys(("started_at", "schema", "schema_digest", "prompt", "prompt_digest"), str),
    **dict.fromkeys(("keywords", "broken_keywords", "notes", "codes", "tags", "changes"), str),
}
#: First characters of texts that spreadsheets evaluate as formulas.
_FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
#: Number of rows that are written at a time.
_BATCH = 1000


def rows_of(run: Run) -> Iterator[dict[str, Any]]:
    """Yield a row for each record, reading one record at a time, and then a row for each missing attempt."""
    askers = {variant.variant: variant.engine_asked for variant in each(run.metadata)}
    costs: Mapping[Attempt, float] = prices.costs(run).attempts
    for outcome, record in zip(run.outcomes, run.records, strict=True):
        who = outcome.answered_by or askers.get(outcome.variant, run.metadata.engine_asked)
        yield _row(outcome, record, who, costs.get(outcome.attempt))
    for attempt, missing in run.unrecorded().items():
        who = askers.get(attempt.variant, run.metadata.engine_asked)
        reason = "unknown" if missing is None else missing.reason.value
        yield _full_row(attempt, who, passed=False, missing=reason, said=(missing and missing.message) or None)


#: Attributes of each object that are the values of columns; the names are the same unless a mapping is given.
_OF_FACTS = (
    *("failure_type", "reason", "valid", "disputed", "fault", "queue_s", "retries", "started_at"),
    *("schema_digest", "prompt_digest"),
)
_OF_DECISIONS = {"valid_instances": "valid", "invalid_instances": "invalid"}
_OF_TIMING = ("ttft", "tgt", "gct", "reasoning_time", "ttft_lateness", "grammar_compilation", "compile_time")
_OF_USAGE = (*COUNTS, "service_tier")
_OF_PARAMS = ("temperature", "max_tokens", "seed")


def _row(outcome: AttemptFacts, record: Record, who: AnsweredBy, cost: float | None) -> dict[str, Any]:
    generation = record.generation
    decisions = outcome.decisions
    answered = generation if isinstance(generation, Completion) else None
    sources: tuple[tuple[object, Mapping[str, str]], ...] = (
        (outcome, {name: name for name in _OF_FACTS} | {"generation": "generation_type"}),
        (outcome.timing, {name: name for name in _OF_TIMING}),
        (outcome.usage, {name: name for name in _OF_USAGE}),
        (record.params, {name: name for name in _OF_PARAMS}),
        (outcome.match, {f"values_{name}": name for name in ("right", "expected", "invented")}),
        (decisions, {name: name for name in ("valid_rejected", "invalid_accepted")} | _OF_DECISIONS),
    )
    values = {column: getattr(source, name, None) for source, names in sources for column, name in names.items()}
    return _full_row(
        record.attempt,
        who,
        **values,
        passed=None if outcome.excluded else outcome.passed,
        message=record.verdict.message or None,
        text=answered and answered.text,
        reasoning=(answered and answered.reasoning) or None,
        finish_reason=answered and answered.finish_reason.value,
        said=generation.message if isinstance(generation, Declined | Failed) else None,
        tpot_ms=tpot_ms(outcome.timing, outcome.usage),
        cost=cost,
        schema=None if record.schema is None else _json(record.schema),
        prompt=None if record.prompt is None else _json(record.prompt.to_messages()),
        keywords=_json(outcome.keywords),
        broken_keywords=_json(outcome.broken),
        notes=_json([note.value for note in outcome.notes]),
        codes=_json(outcome.codes),
        tags=_json(record.tags),
        changes=_json([f"{change.kind} {change.keyword} at {change.path or '/'}" for change in record.changes]),
    )


def _full_row(attempt: Attempt, who: AnsweredBy, **values: Any) -> dict[str, Any]:
    """Return a row with all columns in order; values that are not given are None."""
    values |= {"task": attempt.key.task, "id": attempt.key.id, "repeat": attempt.repeat, "variant": attempt.variant}
    values |= {"engine": who.engine, "model": who.model}
    row = {name: values.get(name) for name in COLUMNS}
    # lone surrogates are escaped, since not every table format supports them
    texts = {
        name: text.encode("utf-8", "backslashreplace").decode() for name, text in row.items() if isinstance(text, str)
    }
    return row | texts


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def summary_rows(summary: Summary) -> Iterator[dict[str, Any]]:
    """
    Yield the metrics of each task and the total, by the names in docs/metrics.md, for the run and then for each
    variant.
    """
    for variant, part in {"": summary, **summary.variants}.items():
        for task, metrics in (*part.tasks.items(), ("total", part.total)):
            yield {"variant": variant, "task": task, **dict(_flatten(metrics.to_dict()))}


def _flatten(figures: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the metrics, with groups flattened to names as in gates: `failure_counts.syntax_error`."""
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


_PANDAS = {str: "string", int: "Int64", float: "Float64", bool: "boolean"}


def to_pandas(run: Run) -> Any:
    """Return the attempts of the run as a pandas DataFrame."""
    pandas = _import_package("pandas", "a data frame")
    columns = _by_column(rows_of(run))
    return pandas.DataFrame({name: pandas.array(columns[name], dtype=_PANDAS[kind]) for name, kind in COLUMNS.items()})


def summary_to_pandas(summary: Summary) -> Any:
    """Return the metrics of each task as a pandas DataFrame."""
    pandas = _import_package("pandas", "a data frame")
    frame = pandas.DataFrame.from_records(list(summary_rows(summary)))
    return frame.set_index(["variant", "task"] if summary.variants else "task").drop(
        columns=[] if summary.variants else "variant"
    )


def to_arrow(run: Run) -> Any:
    """Return the attempts of the run as a pyarrow Table."""
    return _arrow_table(rows_of(run), _arrow_schema())


def to_dataset(run: Run) -> Any:
    """Return the attempts of the run as a `datasets.Dataset`, which can be pushed to the Hub."""
    datasets = _import_package("datasets", "a dataset for a hub", extra="datasets")
    return datasets.Dataset(to_arrow(run))


def write_parquet(path: Path, run: Run, summary: Summary | None = None) -> Path:  # noqa: ARG001  as every exporter
    """Write the attempts of the run to a Parquet file, which only its user can read, in chunks and atomically."""
    schema = _arrow_schema()
    from pyarrow import parquet

    part = path.parent / f".{path.name}.{os.getpid()}.part"
    rows = rows_of(run)
    try:
        part.unlink(missing_ok=True)
        with parquet.ParquetWriter(private(part), schema, compression="zstd") as writer:
            while batch := list(islice(rows, _BATCH)):
                writer.write_table(_arrow_table(batch, schema))
        part.replace(path)
    except JSBenchError:
        raise
    except Exception as error:  # Arrow raises many types of exceptions
        raise ExportError(f"cannot write {path}: {unwritable(path, error)}", where=path) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return path


def write_csv(path: Path, run: Run, summary: Summary | None = None) -> Path:  # noqa: ARG001  as every exporter
    """Write the attempts of the run to a CSV file; null is an empty cell."""
    try:
        write_atomically(path, _csv_lines(rows_of(run)))
    except JournalError as error:
        raise ExportError(str(error), where=path) from error
    return path


def _csv_lines(rows: Iterable[Row]) -> Iterator[str]:
    yield ",".join(COLUMNS) + "\n"
    for row in rows:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(map(_without_formula, row.values()))
        yield line.getvalue()


def _without_formula(value: object) -> object:
    """
    Return the cell, with an apostrophe before text that a spreadsheet would evaluate as a formula (OWASP, "CSV
    Injection").
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value


def _by_column(rows: Iterable[Row]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for row in rows:
        for name, values in columns.items():
            values.append(row[name])
    return columns


def _arrow_schema() -> Any:
    pyarrow = _import_package("pyarrow", "an Arrow table")
    kinds: dict[type, Callable[[], Any]] = {
        str: pyarrow.string,
        int: pyarrow.int64,
        float: pyarrow.float64,
        bool: pyarrow.bool_,
    }
    return pyarrow.schema([(name, kinds[kind]()) for name, kind in COLUMNS.items()])


def _arrow_table(rows: Iterable[Row], schema: Any) -> Any:
    import pyarrow

    return pyarrow.Table.from_pydict(_by_column(rows), schema=schema)


def _import_package(package: str, what: str, *, extra: str = "frames") -> Any:
    """Import the package; raise MissingRequirement if it is not installed."""
    if importlib.util.find_spec(package) is None:
        raise MissingRequirement(f"{what} needs {package}: pip install 'pytest-jsbench[{extra}]'", expected=package)
    return importlib.import_module(package)
