"""Compare the verdicts on BFCL's rows with those of bfcl-eval's own checker, on right answers and on changed ones."""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_jsbench.core.cases import BrokenCase, Case
from pytest_jsbench.core.generations import CalledTool, Completion, FinishReason
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import open_dataset
from pytest_jsbench.verdicts import Judge, Verdict, decide

#: An answer's calls, as names and arguments.
Calls = list[tuple[str, dict[str, Any]]]
#: Function that returns whether bfcl-eval accepts the calls of an answer to a row.
Checker = Callable[[Mapping[str, Any], "Mapping[str, Any] | None", str, Calls], bool]
_ABSENT = ""
#: Model that bfcl-eval offers tools without dots in their names, as this package does.
_MODEL = "without-dots"


@dataclass(kw_only=True)
class Agreement:
    """Counts of the answers on which both decide alike, and the others by kind of answer."""

    alike: Counter[str] = field(default_factory=Counter)
    #: Number of answers that only bfcl-eval accepts, by kind of answer and by our failure type.
    only_theirs: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Number of answers that only this package accepts, by kind of answer.
    only_ours: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    excluded: Counter[str] = field(default_factory=Counter)
    examples: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    @property
    def compared(self) -> int:
        """Number of compared answers."""
        return self.alike.total() + self.only_theirs.total() + self.only_ours.total()


def load_checker(package: Path) -> Checker:
    """
    Return bfcl-eval's checker; `package` is its directory.

    Its list of models imports the SDK of each provider, and the checker only needs one property of a model, so a
    module with one model replaces the list.
    """
    models = types.ModuleType("bfcl_eval.constants.model_config")
    models.MODEL_CONFIG_MAPPING = {_MODEL: types.SimpleNamespace(underscore_to_dot=True)}  # type: ignore[attr-defined]
    sys.modules[models.__name__] = models
    if str(package.parent) not in sys.path:
        sys.path.insert(0, str(package.parent))
    checker = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker")
    python = importlib.import_module("bfcl_eval.constants.enums").Language.PYTHON

    def accepts(row: Mapping[str, Any], answer: Mapping[str, Any] | None, category: str, calls: Calls) -> bool:
        if "irrelevance" in category:
            return not calls
        if answer is None:
            return bool(calls)
        written = [{name: arguments} for name, arguments in copy.deepcopy(calls)]
        truth = copy.deepcopy(answer["ground_truth"])
        return bool(checker.ast_checker(row["function"], written, truth, python, category, _MODEL)["valid"])

    return accepts


def read_lines(path: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of a file by their ids."""
    lines = path.read_text("utf-8").split("\n") if path.exists() else []
    return {row["id"]: row for row in map(json.loads, filter(str.strip, lines))}


def compare(folder: Path, accepts: Checker, judge: Judge) -> Agreement:
    """Compare both on the answers to all rows of the questions in a directory."""
    agreement = Agreement()
    listing = open_dataset(Selection(source=str(folder)))
    questions: dict[str, dict[str, dict[str, Any]]] = {}
    answers: dict[str, dict[str, dict[str, Any]]] = {}
    tasks = {key.task for key in listing.keys()}
    for path in sorted(folder.glob("BFCL_v*_*.json")):
        category = path.stem.partition("_v")[2].partition("_")[2]
        if category not in tasks:
            continue
        questions[category] = read_lines(path)
        answers[category] = read_lines(path.parent / "possible_answer" / path.name)
    for key in listing.keys():
        case = listing.case(key)
        if isinstance(case, BrokenCase):
            agreement.excluded[key.task] += 1
            continue
        row = questions[key.task][key.id]
        answer = answers[key.task].get(key.id)
        for kind, calls in answer_kinds(row, answer):
            theirs = accepts(row, answer, key.task, calls)
            verdict = decide_calls(case, calls, judge)
            _count(agreement, kind, str(key), calls, verdict, theirs=theirs)
    return agreement


def decide_calls(case: Case, calls: Calls, judge: Judge) -> Verdict:
    """Return this package's verdict on an answer with these calls, or with text if there are none."""
    called = tuple(CalledTool(name=name, arguments=json.dumps(arguments)) for name, arguments in calls)
    text = "" if called else "None of the functions can answer this."
    completion = Completion(text=text, finish_reason=FinishReason.STOP, timing=None, calls=called)
    return decide(completion, case.schema, judge, offer=case.offer)


def _count(agreement: Agreement, kind: str, name: str, calls: Calls, verdict: Verdict, *, theirs: bool) -> None:
    agreement.accepted[kind] += theirs
    if verdict.passed == theirs:
        agreement.alike[kind] += 1
        return
    fault = verdict.failure_type.value if verdict.failure_type is not None else "passed"
    if theirs:
        agreement.only_theirs[kind, fault] += 1
    else:
        agreement.only_ours[kind] += 1
    shown = f"{name}: {json.dumps(calls, ensure_ascii=False)[:300]} -> {verdict.message[:300]}"
    agreement.examples.setdefault((kind, fault), []).append(shown)


def answer_kinds(row: Mapping[str, Any], answer: Mapping[str, Any] | None) -> Iterator[tuple[str, Calls]]:
    """Yield kinds of answers to a row: right ones, and ones with a change."""
    yield "no call", []
    functions = {function["name"].replace(".", "_"): function["parameters"] for function in row["function"]}
    name, parameters = next(iter(functions.items()))
    needed = {each: _value_of(parameters["properties"].get(each, {})) for each in parameters["required"]}
    yield "any call", [(name, needed)]
    if answer is None:
        return
    truth = [next(iter(call.items())) for call in answer["ground_truth"]]
    named = [(name.replace(".", "_"), arguments) for name, arguments in truth]
    first = [(name, _choose(arguments, functions[name])) for name, arguments in named]
    yield "right, first values", first
    yield "right, last values", [(name, _choose(arguments, functions[name], last=True)) for name, arguments in named]
    yield (
        "right, without optional",
        [(name, _choose(arguments, functions[name], sparse=True)) for name, arguments in named],
    )
    if len(first) > 1:
        yield "calls in another order", [*first[1:], first[0]]
        yield "a call too few", first[1:]
    yield "a call twice", [*first, first[-1]]
    name, arguments = first[0]
    rest = first[1:]
    yield "an extra argument", [(name, {**arguments, "jsbench_extra": 1}), *rest]
    others = [other for other in functions if other != name]
    if others:
        yield "another function", [(others[0], arguments), *rest]
    for argument, value in arguments.items():
        without = {each: kept for each, kept in arguments.items() if each != argument}
        yield "an argument missing", [(name, without), *rest]
        for kind, changed in _changes(value):
            yield kind, [(name, {**arguments, argument: changed}), *rest]


def _choose(values: Mapping[str, Any], parameters: Mapping[str, Any], **how: bool) -> dict[str, Any]:
    """Return arguments with an acceptable value each: the first or the last, or only those that must be present."""
    chosen = {}
    for name, acceptable in values.items():
        parameter = parameters["properties"].get(name, {})
        given = [value for value in acceptable if value != _ABSENT]
        may_be_absent = _ABSENT in acceptable and name not in parameters["required"]
        if not given and _ABSENT in acceptable and not may_be_absent:
            given = [_ABSENT]
        if not given or (how.get("sparse") and may_be_absent):
            continue
        chosen[name] = _plain(given[-1 if how.get("last") else 0], parameter, **how)
    return chosen


def _plain(value: Any, parameter: Mapping[str, Any], **how: bool) -> Any:
    """Return an acceptable value, with one value for each member of an object."""
    if isinstance(value, Mapping) and parameter.get("type") in ("dict", None):
        members = {}
        for name, acceptable in value.items():
            given = [each for each in acceptable if each != _ABSENT]
            if given and not (how.get("sparse") and _ABSENT in acceptable):
                members[name] = given[-1 if how.get("last") else 0]
        return members
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        return [_plain(item, {}, **how) for item in value]
    return value


def _changes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield changed values with the kind of the change."""
    yield "null", None
    if isinstance(value, bool):
        yield "another value", not value
        yield "another type", str(value)
    elif isinstance(value, int):
        yield "another value", value + 1
        yield "another type", str(value)
        yield "an integer as float", float(value)
    elif isinstance(value, float):
        yield "another value", value + 1.5
        yield "another type", str(value)
        if value.is_integer():
            yield "a float as integer", int(value)
    elif isinstance(value, str):
        yield "another value", value + " and more"
        yield "another type", 7
        yield "other case", value.swapcase()
        yield "other punctuation", "-".join(value.split(" ")) + "."
    elif isinstance(value, list):
        yield "another value", [*value, *value[:1]]
        yield "another type", json.dumps(value)
        yield "items in another order", value[::-1]
        yield "other case", [item.swapcase() if isinstance(item, str) else item for item in value]
        yield "an empty list", []
    elif isinstance(value, Mapping):
        yield "another type", json.dumps(value)
        yield "an extra argument", {**value, "jsbench_extra": 1}
        yield "an argument missing", dict(list(value.items())[1:])
        yield "other case", {name: each.swapcase() if isinstance(each, str) else each for name, each in value.items()}


def _value_of(parameter: Mapping[str, Any]) -> Any:
    """Return a value of the parameter's type."""
    if parameter.get("enum"):
        return parameter["enum"][0]
    values = {"integer": 1, "float": 1.5, "boolean": True, "array": [], "tuple": [], "dict": {}}
    return values.get(parameter.get("type", ""), "x")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print how many answers both decide alike, and the others by kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path, help="directory bfcl_eval of the unpacked wheel")
    parser.add_argument("--folder", type=Path, help="directory of the questions (default: data of the package)")
    parser.add_argument("--examples", type=int, default=0, help="number of examples of each difference")
    options = parser.parse_args(arguments)
    with Judge() as judge:
        agreement = compare(options.folder or options.package / "data", load_checker(options.package), judge)
    total = agreement.compared
    print(f"{agreement.alike.total():,} of {total:,} answers alike ({agreement.alike.total() / total:.2%})")
    print(f"rows left out: {dict(agreement.excluded)}")
    for kind in sorted(agreement.accepted):
        theirs = {fault: count for (of, fault), count in agreement.only_theirs.items() if of == kind}
        alike, accepted = agreement.alike[kind], agreement.accepted[kind]
        print(f"{kind:26} alike {alike:6,}  accepted by bfcl-eval {accepted:6,}", end="")
        print(f"  only bfcl-eval {theirs or 0}  only ours {agreement.only_ours[kind]}")
    for (kind, fault), shown in agreement.examples.items():
        for line in shown[: options.examples]:
            print(f"\n{kind}, {fault}: {line}")


if __name__ == "__main__":
    main()
