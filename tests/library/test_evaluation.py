from __future__ import annotations

import asyncio
import html
import inspect
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from pytest_jsbench import (
    Case,
    Completion,
    Dataset,
    JSBenchError,
    JudgePolicy,
    RateLimits,
    Record,
    Request,
    Run,
    aevaluate,
    evaluate,
    load_run,
    open_engine,
)
from pytest_jsbench.core.arguments import join_names, path
from pytest_jsbench.core.errors import JournalError
from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.engines.base import BatchLimits, BatchState
from pytest_jsbench.engines.recorded import recordings
from pytest_jsbench.library.evaluation_options import READERS, EvaluationOptions, read_options
from pytest_jsbench.records import journal
from pytest_jsbench.records.metadata import Entry
from pytest_jsbench.records.records import MissingReason
from pytest_jsbench.run import batches
from pytest_jsbench.run.in_flight import CallsInFlight
from pytest_jsbench.settings.option import ON_OFF, Option
from pytest_jsbench.settings.options import CALL_OPTIONS, OPTIONS, SETTABLE
from tests.support.bench import NUMBER

#: The engine's answers by case.
ANSWERS = {"good": '{"n": 1}', "bad": '{"n": "x"}', "prose": "no"}
CASES = Dataset.load([{"schema": NUMBER, "id": name, "task": "orders"} for name in ANSWERS])


#: A value that type checkers would reject.
MAYBE: Any = "maybe"


def answer(request: Request) -> str:
    return ANSWERS[request.key.id]


def ends(run: Run) -> dict[str, str | None]:
    return {outcome.key.id: outcome.failure_type for outcome in run.outcomes}


ENDS = {"good": None, "bad": "schema_violation", "prose": "syntax_error"}


def test_evaluate_calls_and_judges_each_case_and_keeps_the_run(tmp_path: Path) -> None:
    run = evaluate(answer, CASES, output=tmp_path, concurrency=2, repeats=2, limits=None)

    assert ends(run) == ENDS
    assert [outcome.repeat for outcome in run.outcomes] == [0, 1] * 3
    assert run.summary.total.pass_rate.value == pytest.approx(1 / 3)
    assert run.folder is not None
    assert {path.name for path in run.folder.iterdir()} == {*("records.jsonl", "run.json", "report.html", "summary.md")}
    settings = json.loads((run.folder / "run.json").read_text())["run"]
    assert (settings["entry"], settings["engine"], settings["model"]) == ("library", "function", "answer")
    assert "pytest" not in settings["versions"]
    assert settings["dataset"]["source"] == "in memory"

    again = load_run(run.folder)
    assert again.metadata == run.metadata
    assert again.metadata.entry is Entry.LIBRARY
    assert list(again.records) == list(run.records)
    assert again.summary == run.summary
    assert load_run(tmp_path).folder == run.folder


@pytest.mark.parametrize("function", [evaluate, aevaluate])
def test_signature_of_evaluate_has_each_option(function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters

    assert list(parameters)[:3] == ["engine", "dataset", "prompt"]
    assert parameters.keys() - {"engine", "dataset"} == EvaluationOptions.__annotations__.keys()
    assert EvaluationOptions.__annotations__.keys() == READERS.keys()
    assert parameters["retries"].default == 2
    assert parameters["retries"].annotation == "int"
    given = {name: part.default for name, part in parameters.items() if part.kind is part.KEYWORD_ONLY}
    read_options({name: default for name, default in given.items() if default is not None}, engine=None, dataset="x")


#: Types of arguments that also accept other Python values than those that the row of the option implies.
OBJECTS = {
    "plain_share": "float",  # 1 is no share
    "prompt": "Text | Template | Callable[[Case], object]",
    "resume": "Text | bool",
    "classify": "Iterable[str | Callable[[Record], str | None]]",
    "comparers": "Mapping[str, str | Callable[[Any, Any], object]]",
    "gates": "Iterable[str]",
    "export": "Mapping[str, Text]",
    "engine_option": "Mapping[str, Any]",
    "extra_fields": "str | Iterable[str]",
    "sample": "int | str",
    "repairs": "int | str",
    "min_pass_rate": "float",
    "max_regression": "float",
    "response_format": "str",
    "where": "str | Iterable[str]",
}


def type_of(option: Option[Any]) -> str:
    """Return the type of an argument of `evaluate`, as written in Python, that the option's row implies."""
    if option.argument_name in OBJECTS:
        return OBJECTS[option.argument_name]
    if option.choices == ON_OFF:
        return "bool"
    if option.choices:
        return f"Literal{[*option.choices, *([True] if option.bare else [])]}"
    if option.check is not None:
        return type(option.check(1)).__name__
    if option.argument is join_names:
        return "str | Iterable[str]"
    return "Text" if option.argument is path else "str"


def test_arguments_of_evaluate_have_the_types_of_the_options() -> None:
    written = {name: kind.__forward_arg__ for name, kind in EvaluationOptions.__annotations__.items()}
    optional = {"concurrency", "output", "record", "limits", "policy"}
    options = {option.argument_name: option for option in OPTIONS}

    assert written.keys() - options.keys() == {"limits", "policy", "progress"}
    assert options.keys() - written.keys() == {"engine", "dataset", ""}
    assert {name for name, kind in written.items() if kind.endswith(" | None")} == optional
    assert {name: kind.removesuffix(" | None") for name, kind in written.items() if name in options} == {
        name: type_of(option) for name, option in options.items() if name in written
    }


def test_open_engine_has_an_argument_for_each_option_of_an_engine_or_a_call() -> None:
    own = inspect.signature(open_engine).parameters.keys() - {"client", "options"}
    of_prompt = {"prompt", "shots", "context", "concurrency", "engine_option", "repairs", "rewrite"}

    assert own == {*SETTABLE, *CALL_OPTIONS} - of_prompt


def test_run_without_output_is_complete_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    run = evaluate(answer, CASES, output=None)

    assert [record.verdict.failure_type for record in run.records] == list(ENDS.values())
    assert run.folder is None
    assert list(tmp_path.iterdir()) == []


def test_report_is_written_to_a_file_also_without_output(tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="needs the extra report")

    run = evaluate(answer, CASES, output=None, report=tmp_path / "new" / "page.html", gates=["pass_rate>=1"])

    page = (tmp_path / "new" / "page.html").read_text("utf-8")
    assert run.warnings == ()
    assert "<strong>FAILED</strong>" in page
    assert "Gate not met: pass_rate" in page
    with pytest.raises(JSBenchError, match=r"^report: .* is a directory; name a file, such as .*report\.html$"):
        evaluate(answer, CASES, output=None, report=tmp_path)


@pytest.mark.parametrize("mode", ["all", "new"])
def test_unwritable_record_stops_calls_and_keeps_the_answer_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    asked: list[str] = []

    def counted(request: Request) -> str:
        asked.append(request.key.id)
        return '{"n": 1}'

    (tmp_path / "file").write_text("")
    with pytest.raises(JSBenchError, match=r"^cannot write to record=.*file: File exists; choose a writable directory"):
        evaluate(counted, CASES, output=tmp_path / "out", record=tmp_path / "file", record_mode=mode)
    assert asked == []

    full = JournalError("cannot write it")
    full.__cause__ = OSError(28, "No space left on device")
    monkeypatch.setattr(recordings, "write_atomically", Mock(side_effect=full))
    folder = tmp_path / "kept"
    run = evaluate(counted, CASES, output=tmp_path / "out", record=folder, record_mode=mode, concurrency=1)

    assert len(asked) == len(run.outcomes) == 1
    assert {missing.reason for missing in run.missing} == {MissingReason.DISK}
    assert run.warnings == (
        f"cannot write recorded answers to {folder}: No space left on device; no more calls are made",
    )


def test_full_disk_while_gathering_records_keeps_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "write_atomically", Mock(side_effect=JournalError("cannot write records.jsonl: full")))

    run = evaluate(answer, CASES, output=tmp_path)

    assert ends(run) == ENDS
    assert len(run.records) == len(ENDS)
    assert run.warnings == ("cannot write records.jsonl: full",)


def test_ctrl_c_leaves_a_run_that_resumes(tmp_path: Path) -> None:
    asked: list[str] = []

    def interrupted(request: Request) -> str:
        if request.key.id != "good":
            raise KeyboardInterrupt
        return answer(request)

    def answers(request: Request) -> str:
        asked.append(request.key.id)
        return answer(request)

    with pytest.raises(KeyboardInterrupt) as ended, open_engine(interrupted, model="m") as engine:
        evaluate(engine, CASES, output=tmp_path, concurrency=1)
    left = load_run(tmp_path)
    assert ends(left) == {"good": None}
    assert "2 attempts without a record; orders::bad: unknown reason" in str(left)
    assert f"resume='{left.folder}'" in ended.value.__notes__[0]
    assert json.loads((tmp_path / left.metadata.run_id / "run.json").read_text())["run"]["complete"] is False

    with open_engine(answers, model="m") as engine:
        run = evaluate(engine, CASES, output=tmp_path, resume=True)

    assert sorted(asked) == ["bad", "prose"]
    assert ends(run) == ENDS
    assert (run.resumed, run.metadata.resumed_from) == (1, left.metadata.run_id)
    with pytest.raises(JSBenchError, match='its run used model "m", this run "answer"'):
        evaluate(answer, CASES, output=tmp_path, resume=tmp_path)


def test_answers_in_flight_are_kept_after_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last = threading.Event()

    def interrupted(*_: object) -> None:
        last.wait(20)
        raise KeyboardInterrupt

    def answers(request: Request) -> str:
        if request.key.id == "prose":  # the calling thread has written the other records
            last.set()
        return answer(request)

    monkeypatch.setattr(CallsInFlight, "take", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate(answers, CASES, output=tmp_path, concurrency=1)

    left = load_run(tmp_path)
    assert {"good": None, "bad": "schema_violation"}.items() <= ends(left).items() <= ENDS.items()


def test_resume_finds_the_run_with_equal_settings_or_starts_anew(tmp_path: Path) -> None:
    for model, resumed in (("a", 0), ("b", 0), ("a", 3)):
        with open_engine(answer, model=model) as engine:
            assert evaluate(engine, CASES, output=tmp_path / "runs", resume=True).resumed == resumed
    with pytest.raises(JSBenchError, match="no run at"):
        evaluate(answer, CASES, output=tmp_path, resume=tmp_path / "nowhere")


def test_failing_function_of_the_program_ends_its_case_but_not_the_run() -> None:
    def breaks(case: Case) -> Case:
        if case.key.id == "bad":
            raise LookupError("nowhere")
        return case

    run = evaluate(answer, CASES.map(breaks), output=None)

    assert ends(run) == {"good": None, "prose": "syntax_error"}
    (missing,) = run.missing
    assert (missing.key.id, missing.reason) == ("bad", MissingReason.ERROR)
    assert "breaks raised LookupError" in missing.message
    assert run.summary.total.pass_rate.n == 3
    for shown in (str(run), run._repr_html_()):
        assert "1 attempt without a record; orders::bad: error function " in shown
    assert "LookupError" in str(run)


def test_page_is_written_only_if_its_dependency_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_jsbench.reports.run_files.find_spec", lambda _: None)

    run = evaluate(answer, CASES, output=tmp_path)

    assert run.warnings == ()
    assert run.folder is not None
    written = {path.name for path in run.folder.iterdir() if path.is_file()}
    assert written == {"records.jsonl", "run.json", "summary.md"}


def test_calls_that_break_are_made_again_and_codes_are_given() -> None:
    tries: list[str] = []

    def at_first_down(request: Request) -> str:
        tries.append(request.key.id)
        if tries.count(request.key.id) == 1:
            raise CallError(FaultKind.SERVER, "busy", retry_after=0.0)
        return answer(request)

    def wordy(record: Record) -> str | None:
        return "wordy" if isinstance(record.generation, Completion) and record.generation.text == "no" else None

    run = evaluate(at_first_down, CASES.filter("id:prose"), output=None, classify=[wordy])

    (record,) = run.records
    assert (record.retries, record.codes) == (1, ("wordy",))
    assert run.metadata.classifiers == ["wordy"]


def test_failing_classifier_is_reported_once_despite_gates() -> None:
    def broken(record: Record) -> str:
        raise ValueError("no mood")

    gated, free = (
        evaluate(answer, CASES.filter("id:prose"), output=None, classify=[broken], gates=gates)
        for gates in (["n>=1"], [])
    )

    message = "classifier 'broken', a function of the program, raised ValueError: no mood, at orders::prose"
    assert gated.verdict is not None
    assert gated.verdict.text == f"FAILED: {message}"
    assert (gated.warnings, free.warnings) == ((), (message,))


def test_concurrency_is_the_number_of_calls_in_flight() -> None:
    meeting = threading.Barrier(3)

    def answers(request: Request) -> str:
        meeting.wait(20)
        return answer(request)

    run = evaluate(answers, CASES, output=None, concurrency=3)

    assert ends(run) == ENDS
    assert run.metadata.concurrency == 3


def test_aevaluate_runs_with_other_coroutines_and_ends_when_cancelled(tmp_path: Path) -> None:
    begun, release = threading.Event(), threading.Event()

    def waits(request: Request) -> str:
        if request.key.id == "bad":
            begun.set()
            release.wait(20)
        return answer(request)

    async def cancelled() -> None:
        evaluation = asyncio.ensure_future(aevaluate(waits, CASES, output=tmp_path, concurrency=1))
        await asyncio.to_thread(begun.wait, 20)
        evaluation.cancel()
        with pytest.raises(asyncio.CancelledError) as ended:
            await evaluation
        (note,) = ended.value.__notes__
        assert f"resume='{load_run(tmp_path).folder}'" in note

    run = asyncio.run(aevaluate(answer, CASES, output=None))
    assert ends(run) == ENDS
    asyncio.run(cancelled())
    release.set()
    # An answer in flight is kept if it arrives before the file is read.
    assert {"good": None}.items() <= ends(load_run(tmp_path)).items() <= ENDS.items()


def test_cancelled_aevaluate_does_not_wait_for_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handed_in = threading.Event()

    class Batches:
        def upload(self, lines: object) -> object:
            return lambda: "b0"

        def line(self, name: str, request: Request) -> bytes:
            return b"{}"

        def state(self, batch: str) -> BatchState:
            handed_in.set()
            return BatchState(ended=False, answered=0, failed=0, total=1)

        def close(self) -> None: ...

        limits = BatchLimits(requests=100, size=10_000)

    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    monkeypatch.setattr(batches, "build_batches", lambda *_: Batches())

    async def cancelled() -> None:
        case = {"id": "a", "schema": {"type": "object"}}
        running = asyncio.ensure_future(aevaluate("openai", [case], model="m", batch="wait", output=tmp_path))
        await asyncio.to_thread(handed_in.wait, 20)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    start = time.perf_counter()
    asyncio.run(cancelled())

    assert time.perf_counter() - start < 5  # the first pause between two checks
    (ledger,) = tmp_path.glob("*/batch.json")
    (batch,) = json.loads(ledger.read_text())["batches"]
    assert (batch["id"], batch["ended"]) == ("b0", False)


def test_aevaluate_makes_no_calls_if_cancelled_before_it_has_started() -> None:
    reading, release = threading.Event(), threading.Event()
    asked = list[Request]()

    def rows() -> Iterator[object]:
        reading.set()
        release.wait(30)
        yield {"type": "object"}

    def noted(request: Request) -> str:
        asked.append(request)
        return "{}"

    async def cancelled() -> None:
        evaluation = asyncio.create_task(aevaluate(noted, rows(), output=None))
        await asyncio.to_thread(reading.wait, 30)
        evaluation.cancel()
        await asyncio.sleep(0)
        release.set()
        await asyncio.wait([evaluation])
        assert evaluation.cancelled()

    asyncio.run(cancelled())

    assert asked == []


def test_a_bar_that_can_only_be_text_is_no_reason_to_warn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tqdm").mkdir()
    (tmp_path / "tqdm" / "__init__.py").touch()
    (tmp_path / "tqdm" / "auto.py").write_text(
        "import contextlib, types, warnings\n"
        "warnings.warn('IProgress not found. Please update jupyter and ipywidgets.')\n"
        "moved = []\n"
        "def tqdm(**given): return contextlib.nullcontext(types.SimpleNamespace(update=lambda: moved.append(given)))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tqdm"]:
        monkeypatch.delitem(sys.modules, name)

    evaluate(answer, CASES, output=None, progress=True)

    shown = sys.modules["tqdm.auto"]
    assert [given["total"] for given in shown.moved] == [3, 3, 3]
    for name in ("tqdm", "tqdm.auto"):
        del sys.modules[name]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retries": -1}, "retries is -1"),
        ({"concurrency": "8"}, "evaluate: concurrency is '8'; expected a whole number of at least 1"),
        ({"output": 5}, "output is 5; expected a path"),
        ({"resume": 5}, "resume is 5; expected True, or the path of a run"),
        ({"limits": {"requests_per_minute": 60}}, r"limits is a dict; expected a RateLimits, such as RateLimits\(requ"),
        ({"policy": "strict"}, "policy is 'strict'; expected a JudgePolicy"),
        ({"classify": [5]}, r"classify is \[5\]; expected a list of functions of a record, or of names"),
        ({"comparers": {"n": 5}}, "comparers is a dict; expected a mapping of fields to comparers, such as"),
        ({"redact": "off"}, "redact is 'off'; expected True or False"),
        ({"concurency": 2}, "evaluate has no argument 'concurency': did you mean 'concurrency'"),
        ({"base_url": "http://x"}, "a function only gets the request; remove the settings: base_url"),
        ({"comparers": {"n": "about"}}, "comparers: n: expected tolerance:NUMBER"),
        ({"tasks": ["orders"]}, r"evaluate: tasks: the dataset is already loaded; pass tasks to Dataset.load\(…\)"),
        ({"batch": "wait"}, "batch: engine 'function' has no batch API: expected "),
        ({"instances": "builtin"}, "instances has its own schemas; remove dataset"),
        ({"baseline": "nowhere"}, "^baseline: .*nowhere"),
        ({"max_regression": 0.1}, "max_regression 0.1: no baseline to compare with; add baseline=RUN"),
        ({"export": {"nothing": "x"}}, "unknown exporter 'nothing'"),
        ({"preset": "x"}, "evaluate: preset is 'x'; expected a publication: unknown publication 'x': expected one of"),
        ({"prompt": "schme"}, "unknown prompt 'schme': did you mean 'schema'"),
        ({"classify": ["unknown"]}, "unknown classifier or metric 'unknown'"),
        ({"output": None, "resume": True}, "pass the run, or an output"),
        ({"replay": "kept"}, "^replay uses recorded answers, and excludes engine; remove one"),
        ({"variants": "all"}, "both variants and an engine are given: pass only one of them"),
        ({"record_mode": "new"}, "^record_mode=new needs a directory for recorded answers; add record=DIR"),
    ],
)
def test_invalid_evaluation_is_rejected_before_any_call(options: dict[str, Any], message: str) -> None:
    with pytest.raises(JSBenchError, match=message):
        evaluate(answer, CASES, **{"output": None, **options})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: RateLimits(requests_per_minute=-1),
            "RateLimits: requests_per_minute is -1; expected a number above 0",
        ),
        (lambda: evaluate(None, CASES), "^no engine is set: add engine=NAME$"),
        (lambda: RateLimits(patience=MAYBE), "RateLimits: patience is 'maybe'; expected seconds, at least 0"),
        (lambda: JudgePolicy(extra_fields=MAYBE), "JudgePolicy: extra_fields is 'maybe'; expected one of allow, fail"),
        (lambda: JudgePolicy(timeout=MAYBE), "JudgePolicy: timeout is 'maybe'; expected seconds above 0"),
    ],
)
def test_invalid_limits_and_policies_raise_when_constructed(make: Callable[[], object], message: str) -> None:
    with pytest.raises(JSBenchError, match=message):
        make()
    assert RateLimits(patience=0, max_cost=0).patience == 0
    assert JudgePolicy(ignored_fields=MAYBE).ignored_fields == (MAYBE,)


def test_wrong_argument_raises_before_the_engine_is_opened() -> None:
    with pytest.raises(JSBenchError, match="repeats is 0"):
        evaluate("no such engine", CASES, repeats=0)
    with pytest.raises(JSBenchError, match=r"^where: expected a whole number"):
        evaluate("scripted", "builtin", where="size<<1", output=None)


def test_values_are_compared_by_the_programs_comparers() -> None:
    row = {"schema": {"type": "object"}, "expected": {"total": 10, "vendor": "ACME", "id": 1}}

    run = evaluate(
        lambda _: '{"total": 10.5, "vendor": "acme ltd", "id": 2}',
        [row],
        comparers={"total": "tolerance:10%", "vendor": lambda expected, found: found.startswith(expected.lower())},
        output=None,
    )

    (record,) = run.records
    assert record.match is not None
    assert record.match.fields == {"total": (1, 1), "vendor": (1, 1), "id": (0, 1)}


def test_a_dataset_without_cases_is_not_evaluated() -> None:
    with pytest.raises(JSBenchError, match="has no cases to evaluate"):
        evaluate(answer, CASES.filter("id:none"), output=None)


def test_gates_decide_the_verdict_and_are_validated_before_any_call(tmp_path: Path) -> None:
    run = evaluate(answer, CASES, output=tmp_path, gates=["pass_rate>=0.3", "orders.failure_rates.syntax_error<=0.1"])

    assert run.verdict is not None
    assert run.verdict.text == "FAILED: 1 of 2 gates are not met: orders.failure_rates.syntax_error<=0.1"
    assert run.verdict.text in str(run)
    assert html.escape(run.verdict.text) in run._repr_html_()
    assert load_run(tmp_path).verdict == run.verdict
    assert run.folder is not None
    data = json.loads((run.folder / "run.json").read_text())
    assert [gate["met"] for gate in data["gates"]] == [True, False]
    assert evaluate(answer, CASES, output=None).verdict is None
    for gates, problem in (("pas_rate>=1", "did you mean 'pass_rate'"), (["order.pass_rate>=1"], "no task or metric")):
        with pytest.raises(JSBenchError, match=problem):
            evaluate(never, CASES, output=None, gates=gates)


def never(_: Request) -> str:
    raise AssertionError


def test_recorded_answers_are_replayed_and_only_new_ones_are_called(tmp_path: Path) -> None:
    kept = tmp_path / "answers"
    first = evaluate(answer, CASES.filter("id:good"), output=None, record=kept)

    with open_engine("recorded", folder=kept, strict=True) as engine:
        again = evaluate(engine, CASES.filter("id:good"), output=None)
    assert ends(again) == ends(first) == {"good": None}
    assert ends(evaluate(None, CASES.filter("id:good"), output=None, replay=kept)) == {"good": None}
    (record,) = again.records
    assert isinstance(record.generation, Completion)
    assert record.generation.sent is not None
    assert record.generation.sent.asked_otherwise is None

    asked: list[str] = []

    def noted(request: Request) -> str:
        asked.append(request.key.id)
        return answer(request)

    assert ends(evaluate(noted, CASES, output=None, record=kept, record_mode="new")) == ENDS
    assert sorted(asked) == ["bad", "prose"]
    assert {path.stem for path in kept.rglob("*.json")} == set(ANSWERS)
    with pytest.raises(JSBenchError, match="redact writes no answers, but a recording contains answers; remove record"):
        evaluate(never, CASES, output=None, record=kept, redact=True)


def test_none_means_that_an_option_is_not_given() -> None:
    unsaid: Any = dict.fromkeys(EvaluationOptions.__annotations__)

    with open_engine(answer) as engine:
        run = evaluate(engine, CASES, **unsaid)
        several = evaluate({"a": {"engine": engine, "prompt": None, "shots": None}, "b": engine}, CASES, **unsaid)

    assert ends(run) == ends(several.of_variant("a")) == ENDS


def test_each_variant_respects_its_concurrency() -> None:
    flying, most, lock = Counter[str](), Counter[str](), threading.Lock()

    def asked_of(variant: str) -> Callable[[Request], str]:
        def ask(_: Request) -> str:
            with lock:
                flying[variant] += 1
                most[variant] = max(most[variant], flying[variant])
            time.sleep(0.005)
            with lock:
                flying[variant] -= 1
            return ANSWERS["good"]

        return ask

    engines = {
        "one": {"engine": asked_of("one"), "concurrency": 1},
        "many": {"engine": asked_of("many"), "concurrency": 8},
    }

    run = evaluate(engines, Dataset.load([NUMBER] * 20), output=None)

    assert len(run.outcomes) == 40
    assert most["one"] == 1
    assert 1 < most["many"] <= 8


@pytest.mark.parametrize(
    ("engines", "message"),
    [
        (
            {"gpt 4": answer, "b": answer},
            "^engine: 'gpt 4' is not a valid variant name: expected letters, digits and any of . _",
        ),
        ({"../x": answer, "b": answer}, "^engine: '../x' is not a valid variant name"),
        ({"": answer, "b": answer}, "^engine is a mapping with the name '': expected a name for each variant"),
        ({1: answer, 2: answer}, "^engine is a mapping with the name 1: expected a name for each variant"),
        ({object(): answer}, "^engine is a mapping with the name an object: expected a name for each variant"),
        (
            {},
            "^engine is a mapping without engines: expected a name for each variant, such as {'small': …, 'large': …}",
        ),
    ],
)
def test_engines_with_invalid_names_are_not_called(engines: Any, message: str) -> None:
    with pytest.raises(JSBenchError, match=message):
        evaluate(engines, CASES, output=None)


def test_several_engines_make_one_run_with_replay_comparison_and_export(tmp_path: Path) -> None:
    with open_engine(lambda _: '{"n": 1}', model="m", temperature=0.5) as opened:
        ways: dict[str, Any] = {"plain": answer, "open": {"engine": opened, "prompt": "fields", "concurrency": 1}}
        run = evaluate(ways, CASES, output=tmp_path / "first", repeats=2, gates=["open.pass_rate>=1"])
        with pytest.raises(
            JSBenchError, match=r"temperature: the engine is already open; pass temperature to open_engine\(…\)"
        ):
            evaluate({"open": {"engine": opened, "temperature": 0.1}}, CASES)

    assert run.folder is not None
    assert run.verdict is not None
    assert run.verdict.passed
    assert load_run(run.folder).metadata == run.metadata
    assert {name: part.total.passed for name, part in run.summary.variants.items()} == {"plain": 2, "open": 6}
    exported = tmp_path / "rows.csv"
    again = evaluate(
        *(None, CASES),
        output=tmp_path / "again",
        replay=run.folder,
        baseline=run.folder,
        max_regression=0.0,
        export={"csv": exported},
        repeats=2,
    )
    assert list(again.variants) == ["plain", "open"]
    assert again.verdict is not None
    assert again.verdict.passed
    assert exported.read_text().count("orders") == 12
    with pytest.raises(JSBenchError, match="variant 'other': unknown engine 'unknown'"):
        evaluate({"plain": answer, "other": "unknown"}, CASES)
