"""A dataset: cases that are loaded, filtered, changed and sampled, each step by itself."""

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
from pytest_jsbench.core.text import described, kind_of, printable
from pytest_jsbench.datasets.base import CaseSource, Sample, Selection
from pytest_jsbench.datasets.selection import meeting, open_selected, sampled
from pytest_jsbench.library.evaluation_options import said_to_programs
from pytest_jsbench.settings.options import DEFAULTS, readers
from pytest_jsbench.settings.plan import selection_of

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Template
    from pytest_jsbench.settings.variants import Values


#: what a case becomes: a whole case, or the parts of it that change, as a row of a file has them
Changed = Case | Mapping[str, Any]
_IN_MEMORY = "in memory"
#: what others call something that is said in another way here
_OTHERWISE = {
    "where": "say it to Dataset.filter(…)",
    "sample": "take it by Dataset.sample(size, seed)",
    "revision": "say it after the name, as in epfl-dlab/JSONSchemaBench@REVISION",
    **dict.fromkeys(("name", "config", "config_name", "subset"), "say it as tasks=…"),
}


def _names_of_sources(source: object) -> list[str]:
    """Return the names of one or several sources; none if the object holds the cases itself."""
    parts = list(source) if isinstance(source, list | tuple) else [source]
    names = [fspath(part) if isinstance(part, PathLike) else part for part in parts]
    return [name for name in names if isinstance(name, str)] if all(isinstance(name, str) for name in names) else []


class Dataset:
    """
    The cases to be asked, in their order.

    It never changes: each step gives another dataset. A case is read, and changed by the functions of `map`, each time
    that somebody asks for it; `evaluate` does so in the threads of its calls.
    """

    def __init__(
        self, source: CaseSource, choice: Mapping[str, object] | None = None, steps: tuple[str, ...] = ()
    ) -> None:
        if choice is None:
            message = f"a dataset is made by Dataset.load({printable(repr(source), 60)})"
            raise DatasetError(message, found=source, expected="Dataset.load(…)", where="Dataset")
        #: where the cases come from
        self.source = source
        self._choice = choice
        self._steps = steps

    @classmethod
    @arguments(readers("limit", "split", "registry"), tasks=names, skip_invalid=flag, otherwise=_OTHERWISE)
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
        The cases of a source: of whatever `--jsbench-dataset` takes, or of what the program holds.

        That is a `datasets.Dataset`, streamed too, a DataFrame of pandas, a Pydantic model, a mapping of names to
        schemas, or any iterable of cases, rows and schemas. `limit` takes the first so many of each task;
        `registry` is a folder of schemas to which these may refer. A case whose schema is broken is left out where
        `skip_invalid` says so, as of published datasets, and else missing.
        """
        invalid = None if skip_invalid is None else "skip" if skip_invalid else "fail"
        values = {"tasks": tasks, "split": split, "limit": limit, "registry": registry, "invalid_schemas": invalid}
        return cls.of(source, {**DEFAULTS, **values})

    @classmethod
    def of(cls, source: object, values: Values) -> Dataset:
        """Select the cases of a source as the options say; None is the source that they name, or the built-in one."""
        source = fspath(source) if isinstance(source, PathLike) else source
        held, values = None, dict(values)
        names = _names_of_sources(source)
        if names:
            values["dataset"] = names
        elif source is not None:
            published = type(source).__module__.partition(".")[0] == "datasets"  # by that package
            held, values["dataset"] = source, [_IN_MEMORY]
            values["invalid_schemas"] = values["invalid_schemas"] or ("skip" if published else "fail")
        with said_to_programs():
            selection = selection_of(values)
            return cls(open_selected(selection, held), selection.to_dict())

    @arguments(wanted=one_of("a condition such as 'size<2000', or a function of a case", str, Callable))
    @said_to_programs()
    def filter(self, wanted: str | Callable[[Case], object]) -> Dataset:
        """The cases that meet a condition as `--jsbench-where` takes it, or for which the function gives true."""
        if not isinstance(wanted, str):
            # a row that holds no schema is none of them
            return self._after(
                f"filter {_name(wanted)}()",
                lambda source: [
                    case.key
                    for case in map(source.case, source.keys())
                    if isinstance(case, Case) and _called(wanted, case)
                ],
            )
        from pytest_jsbench.datasets.conditions import parse

        condition, dialect = parse(wanted), Selection().default_dialect
        return self._after(f"filter {wanted}", lambda source: meeting(condition, source, default_dialect=dialect))

    @arguments(function=one_of("a function of a case", Callable))
    def map(self, function: Callable[[Case], Changed]) -> Dataset:
        """
        The cases as the function makes them; each keeps its name.

        It takes a case, and gives another one, or what is to be changed: any of `schema`, `prompt` (what to ask, word
        for word), `messages`, `tags`, `expected` and `reference`. It must give the same each time it is asked.
        """
        return self._after(f"map {_name(function)}()", change=lambda case: _changed(case, function))

    @arguments(size=whole(1), seed=whole(0))
    @said_to_programs()
    def sample(self, size: int, seed: int = 0) -> Dataset:
        """So many of the cases at random, in proportion over the tasks; the same for the same seed everywhere."""
        sample = Sample(size=size, seed=seed)
        return self._after(f"sample {size} seed {seed}", lambda source: sampled(source.keys(), sample))

    @arguments(readers("shots"))
    @said_to_programs()
    def prompts(
        self, prompt: str | PathLike[str] | Template | Callable[[Case], object] = "schema", *, shots: int = 0
    ) -> Iterator[tuple[Case, Prompt]]:
        """Each case that holds a schema, with the messages that would ask for its instance."""
        from pytest_jsbench.prompts import template_of

        template = template_of(prompt, shots=shots).render
        return ((case, prompt_of(case, template)) for case in self if isinstance(case, Case))

    def to_dict(self) -> dict[str, object]:
        """Describe the choice of these cases as JSON values, for a run's metadata."""
        return {**self._choice, **({"steps": list(self._steps)} if self._steps else {})}

    @said_to_programs()
    def keys(self) -> Sequence[CaseKey]:
        """The names of the cases, in order."""
        return self.source.keys()

    @overload
    def __getitem__(self, key: slice) -> Dataset: ...

    @overload
    def __getitem__(self, key: CaseKey | str | int) -> Case | BrokenCase: ...

    @said_to_programs()
    def __getitem__(self, key: CaseKey | str | int | slice) -> Case | BrokenCase | Dataset:
        """The case of that name, as in `dataset["simple::order"]`, or of that place; of a slice its cases."""
        if isinstance(key, slice):
            parts = (key.start, key.stop, *([] if key.step is None else [key.step]))
            text = ":".join("" if part is None else str(part) for part in parts)
            return self._after(f"slice {text}", lambda source: source.keys()[key])
        keys = self.keys()
        if isinstance(key, int) and -len(keys) <= key < len(keys):
            return self.source.case(keys[key])
        places = {} if isinstance(key, int) else {str(place): place for place in keys}
        if (place := places.get(str(key))) is not None:
            return self.source.case(place)
        close = difflib.get_close_matches(str(key), places, n=1)
        offer = f"did you mean {close[0]}?" if close else f"expected task::id of a case, or a number below {len(keys)}"
        raise DatasetError(f"no case {key!s:.80} in {self!r}: {offer}", found=key, where="Dataset")

    def __len__(self) -> int:
        return len(self.keys())

    def __iter__(self) -> Iterator[Case | BrokenCase]:
        with said_to_programs():
            yield from map(self.source.case, self.keys())

    def __repr__(self) -> str:
        return f"<Dataset of {', '.join((repr(self._choice['source']), *self._steps))}>"

    def _after(
        self,
        step: str,
        choose: Callable[[CaseSource], Sequence[CaseKey]] = lambda source: source.keys(),
        change: Callable[[Case], Case] = lambda case: case,
    ) -> Dataset:
        return Dataset(_Step(self.source, choose, change), self._choice, (*self._steps, step))


class _Step:
    """Some cases of a source, found out when somebody first asks for them, as a function changes each."""

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


def _changed(case: Case, function: Callable[[Case], Changed]) -> Case:
    made = _called(function, case)
    if isinstance(made, Case) and made.key == case.key:
        return made
    problem = kind_of(made)
    if isinstance(made, Case):
        problem = f"the case {made.key}"
    elif isinstance(made, Mapping) and not (strangers := made.keys() - _CHANGEABLE):
        return _with_parts(case, made, where=_name(function))
    elif isinstance(made, Mapping):
        problem = ", ".join(sorted(map(str, strangers)))
    message = (
        f"function {_name(function)} gave {problem} for {case.key}; expected that case changed, or a mapping of any of "
        f"{', '.join(sorted(_CHANGEABLE))}"
    )
    raise DatasetError(message, found=problem, expected=sorted(_CHANGEABLE), where=_name(function))


def _with_parts(case: Case, parts: Mapping[str, Any], *, where: str) -> Case:
    """The case with these parts; what it expects is compared as before, and as a new schema says."""
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
    if made.expected is None or case.expected is None:
        return made
    comparers = {**case.expected.comparers, **made.expected.comparers}
    return replace(made, expected=replace(made.expected, comparers=comparers))


_CHANGEABLE = frozenset({"schema", "prompt", "messages", "tags", "expected", "reference"})


def _called(function: Callable[[Case], Any], case: Case) -> Any:
    try:
        return function(case)
    except Exception as error:
        message = f"function {_name(function)} raised {described(error)} for {case.key}"
        raise DatasetError(message, where=_name(function)) from error


def _name(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
