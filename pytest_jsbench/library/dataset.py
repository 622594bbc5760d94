"""Provide datasets in the Python API: load, filter, change and sample cases, each as a separate step."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, overload

from pytest_jsbench.core.arguments import arguments, flag, names, one_of, whole
from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Prompt, prompt_of
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import Unreadable
from pytest_jsbench.core.text import describe_error, kind_of, printable
from pytest_jsbench.datasets.base import CaseSource, Sample, Selection
from pytest_jsbench.datasets.selection import draw_sample, find_matching, open_selected
from pytest_jsbench.library.evaluation_options import argument_names_in_errors
from pytest_jsbench.run.plan import selection_of
from pytest_jsbench.settings.options import CaseOptions, JudgingOptions, readers

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Template
    from pytest_jsbench.settings.option import Values


#: Return value of a function for `Dataset.map`: a case, or a mapping of names of fields to changed values.
Changed = Case | Mapping[str, Any]
_IN_MEMORY = "in memory"
#: Advice for arguments that users may know from other libraries.
_ADVICE = {
    "where": "pass it to Dataset.filter(…)",
    "sample": "use Dataset.sample(size, seed)",
    "revision": "append it to the name, as in epfl-dlab/JSONSchemaBench@REVISION",
    **dict.fromkeys(("name", "config", "config_name", "subset"), "pass it as tasks=…"),
}


def _names_of_sources(source: object) -> list[str]:
    """Return the names of one or several sources; an empty list if the source is an object with cases."""
    parts = list(source) if isinstance(source, list | tuple) else [source]
    names = [fspath(part) if isinstance(part, PathLike) else part for part in parts]
    return [name for name in names if isinstance(name, str)] if all(isinstance(name, str) for name in names) else []


class Dataset:
    """
    Cases to evaluate, in order.

    A dataset is immutable; each method that changes it returns a new dataset. A case is read, and the functions passed
    to `map` are applied, each time that the case is accessed; `evaluate` accesses cases in the threads of its calls.
    """

    def __init__(
        self, source: CaseSource, choice: Mapping[str, object] | None = None, steps: tuple[str, ...] = ()
    ) -> None:
        if choice is None:
            message = f"create a dataset with Dataset.load({printable(repr(source), 60)})"
            raise DatasetError(message, found=source, expected="Dataset.load(…)", where="Dataset")
        #: Source of the cases.
        self.source = source
        self._choice = choice
        self._steps = steps

    @classmethod
    @arguments(readers("limit", "split", "registry"), tasks=names, skip_invalid=flag, otherwise=_ADVICE)
    def load(
        cls,
        source: str | PathLike[str] | Iterable[object] | type,
        *,
        tasks: str | Iterable[str] | None = None,
        split: str = "test",
        limit: int | None = None,
        registry: str | PathLike[str] | None = None,
        skip_invalid: bool | None = None,
    ) -> Dataset:
        """
        Load the cases of a source: any value of `--jsbench-dataset`, or an object of the program.

        The object can be a `datasets.Dataset` (also a streaming one), a pandas DataFrame, a Pydantic model, a mapping
        of names to schemas, or any iterable of cases, rows and schemas. `limit` takes the first cases of each task;
        `registry` is a directory of schemas to which the cases' schemas may refer. A case with a broken schema is
        skipped if `skip_invalid` is set, which is the default for published datasets; otherwise, it counts as missing.
        """
        invalid = None
        if skip_invalid is not None:
            invalid = "skip" if skip_invalid else "fail"
        values = {"tasks": tasks, "split": split, "limit": limit, "registry": registry, "invalid_schemas": invalid}
        return cls.of(source, values)

    @classmethod
    def of(cls, source: object, values: Values) -> Dataset:
        """
        Select the cases of a source by these options; if the source is None, use the `dataset` option
        or the built-in dataset.
        """
        source = fspath(source) if isinstance(source, PathLike) else source
        cases_object = None
        values = dict(values)
        names = _names_of_sources(source)
        if names:
            values["dataset"] = names
        elif source is not None:
            published = type(source).__module__.partition(".")[0] == "datasets"  # an object of the package `datasets`
            cases_object = source
            values["dataset"] = [_IN_MEMORY]
            values["invalid_schemas"] = values.get("invalid_schemas") or ("skip" if published else "fail")
        with argument_names_in_errors():
            selection = selection_of(CaseOptions(values), JudgingOptions(values), values.get("policy"))
            return cls(open_selected(selection, cases_object), selection.to_dict())

    @arguments(wanted=one_of("a condition such as 'size<2000', or a function of a case", str, Callable))
    @argument_names_in_errors()
    def filter(self, wanted: str | Callable[[Case], object]) -> Dataset:
        """
        Return the cases that meet a condition, written as for `--jsbench-where`, or for which a
        function returns true.
        """
        if not isinstance(wanted, str):
            # A row without a schema is never selected.
            return self._add_step(
                f"filter {_name(wanted)}()",
                lambda source: [
                    case.key
                    for case in map(source.case, source.keys())
                    if isinstance(case, Case) and _call(wanted, case)
                ],
            )
        from pytest_jsbench.datasets.conditions import parse

        condition = parse(wanted)
        dialect = Selection().default_dialect
        return self._add_step(
            f"filter {wanted}", lambda source: find_matching(condition, source, default_dialect=dialect)
        )

    @arguments(function=one_of("a function of a case", Callable))
    def map(self, function: Callable[[Case], Changed]) -> Dataset:
        """
        Return the dataset with each case changed by the function; cases keep their keys.

        The function takes a case and returns a case, or a mapping of the parts to change: any of `schema`, `prompt`
        (the text to send), `messages`, `tags`, `expected` and `reference`. The function must be deterministic.
        """
        return self._add_step(f"map {_name(function)}()", change=lambda case: _change_case(case, function))

    @arguments(size=whole(1), seed=whole(0))
    @argument_names_in_errors()
    def sample(self, size: int, seed: int = 0) -> Dataset:
        """Return a random sample of this size, stratified by task; the same seed always gives the same sample."""
        sample = Sample(size=size, seed=seed)
        return self._add_step(f"sample {size} seed {seed}", lambda source: draw_sample(source.keys(), sample))

    @arguments(readers("shots"))
    @argument_names_in_errors()
    def prompts(
        self, prompt: str | PathLike[str] | Template | Callable[[Case], object] = "schema", *, shots: int = 0
    ) -> Iterator[tuple[Case, Prompt]]:
        """Return each case that has a schema, with the messages that a run would send for the case."""
        from pytest_jsbench.prompts import template_of

        template = template_of(prompt, shots=shots).render
        return ((case, prompt_of(case, template)) for case in self if isinstance(case, Case))

    def to_dict(self) -> dict[str, object]:
        """Return the selection and all later steps as JSON values, for a run's metadata."""
        return {**self._choice, **({"steps": list(self._steps)} if self._steps else {})}

    @argument_names_in_errors()
    def keys(self) -> Sequence[CaseKey]:
        """Return the keys of the cases, in order."""
        return self.source.keys()

    @overload
    def __getitem__(self, key: slice) -> Dataset: ...

    @overload
    def __getitem__(self, key: CaseKey | str | int) -> Case | BrokenCase: ...

    @argument_names_in_errors()
    def __getitem__(self, key: CaseKey | str | int | slice) -> Case | BrokenCase | Dataset:
        """Return the case with this key (`dataset["simple::order"]`) or position; return a dataset for a slice."""
        if isinstance(key, slice):
            parts = (key.start, key.stop, *([] if key.step is None else [key.step]))
            text = ":".join("" if part is None else str(part) for part in parts)
            return self._add_step(f"slice {text}", lambda source: source.keys()[key])
        keys = self.keys()
        if isinstance(key, int) and -len(keys) <= key < len(keys):
            return self.source.case(keys[key])
        places = {} if isinstance(key, int) else self._keys_by_name
        if (place := places.get(str(key))) is not None:
            return self.source.case(place)
        close = difflib.get_close_matches(str(key), places, n=1)
        offer = f"did you mean {close[0]}?" if close else f"expected task::id of a case, or a number below {len(keys)}"
        raise DatasetError(f"no case {key!s:.80} in {self!r}: {offer}", found=key, where="Dataset")

    @cached_property
    def _keys_by_name(self) -> Mapping[str, CaseKey]:
        """Keys of the cases by their names; they do not change."""
        return {str(key): key for key in self.keys()}

    def __len__(self) -> int:
        return len(self.keys())

    def __iter__(self) -> Iterator[Case | BrokenCase]:
        with argument_names_in_errors():
            yield from map(self.source.case, self.keys())

    def __repr__(self) -> str:
        return f"<Dataset of {', '.join((repr(self._choice['source']), *self._steps))}>"

    def _add_step(
        self,
        step: str,
        choose: Callable[[CaseSource], Sequence[CaseKey]] = lambda source: source.keys(),
        change: Callable[[Case], Case] = lambda case: case,
    ) -> Dataset:
        return Dataset(_Step(self.source, choose, change), self._choice, (*self._steps, step))


class _Step:
    """Source of selected and changed cases: selects on first access, and changes each case when it is read."""

    def __init__(
        self,
        source: CaseSource,
        choose: Callable[[CaseSource], Sequence[CaseKey]],
        change: Callable[[Case], Case],
    ) -> None:
        self._source = source
        self._choose = choose
        self._change = change

    @cached_property
    def _keys(self) -> tuple[CaseKey, ...]:
        return tuple(self._choose(self._source))

    def keys(self) -> Sequence[CaseKey]:
        return self._keys

    def case(self, key: CaseKey) -> Case | BrokenCase:
        case = self._source.case(key)
        return case if isinstance(case, BrokenCase) else self._change(case)


def _change_case(case: Case, function: Callable[[Case], Changed]) -> Case:
    made = _call(function, case)
    if isinstance(made, Case) and made.key == case.key:
        return made
    problem = kind_of(made)
    if isinstance(made, Case):
        problem = f"the case {made.key}"
    elif isinstance(made, Mapping):
        unknown = made.keys() - _CHANGEABLE
        if not unknown:
            return _with_parts(case, made, where=_name(function))
        problem = ", ".join(sorted(map(str, unknown)))
    message = (
        f"function {_name(function)} returned {problem} for {case.key}; expected a changed case, or a mapping of any "
        f"of {', '.join(sorted(_CHANGEABLE))}"
    )
    raise DatasetError(message, found=problem, expected=sorted(_CHANGEABLE), where=_name(function))


def _with_parts(case: Case, parts: Mapping[str, Any], *, where: str) -> Case:
    """Return the case with these parts replaced; comparers of a new schema are added to the case's comparers."""
    from pytest_jsbench.datasets.sources.rows import case_of

    same: dict[str, object] = {"schema": case.schema, "reference": case.reference, "tags": list(case.tags)}
    if case.messages and not {"prompt", "messages"} & parts.keys():
        same["messages"] = list(case.messages)
    if case.expected is not None:
        same["expected"] = case.expected.value
    try:
        made = case_of(case.key, {**same, **parts})
    except Unreadable as error:
        raise DatasetError(f"{case.key}: {where}: {error.problem}", where=where) from None
    if case.offer is not None:
        made = replace(made, offer=case.offer)
    if made.expected is None or case.expected is None:
        return made
    comparers = {**case.expected.comparers, **made.expected.comparers}
    return replace(made, expected=replace(made.expected, comparers=comparers))


_CHANGEABLE = frozenset({"schema", "prompt", "messages", "tags", "expected", "reference"})


def _call(function: Callable[[Case], Any], case: Case) -> Any:
    try:
        return function(case)
    except Exception as error:
        message = f"function {_name(function)} raised {describe_error(error)} for {case.key}"
        raise DatasetError(message, where=_name(function)) from error


def _name(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
