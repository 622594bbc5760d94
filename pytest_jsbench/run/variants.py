"""
Resolve the variants of a run: combinations of engine, sampling parameters and prompt for the same cases.

Variants come from options that are given more than once, from a table in pyproject.toml or jsbench.toml, or from a
Python program. The result is one `Variant` per name. The run session opens their engines later; no calls are made here.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any

from pytest_jsbench.adaptation.rewriting import Rewriting
from pytest_jsbench.core.cases import Template, safe_name
from pytest_jsbench.core.errors import BatchError, JSBenchError, errors_about, nearest
from pytest_jsbench.core.generations import GenerationParams
from pytest_jsbench.core.text import kind_of, printable
from pytest_jsbench.engines.base import EngineConfig, EngineFactory
from pytest_jsbench.engines.engine_secrets import shown_text
from pytest_jsbench.engines.presets import adaptation
from pytest_jsbench.engines.registry import find, require_batches, require_matcher
from pytest_jsbench.prompts import template_of
from pytest_jsbench.records import journal
from pytest_jsbench.records.repairs import RepairPlan
from pytest_jsbench.settings.call_options import Ask
from pytest_jsbench.settings.layers import place
from pytest_jsbench.settings.option import Option, Values
from pytest_jsbench.settings.options import (
    BY_NAME,
    CALL_OPTIONS,
    MULTIPLIED,
    SAMPLING_OPTIONS,
    SETTABLE,
    RecordingOptions,
)
from pytest_jsbench.settings.parsers import assignment
from pytest_jsbench.settings.spec import RunSpec

#: Options whose value alone becomes part of a variant's name; the value of any other option is prefixed with its name.
_NAMED = frozenset({"model", "prompt", "base_url", "response_format", "adapt"})
#: Options that do not apply to another engine.
_OF_ENGINE = ("model", "base_url", "api_key_env", "response_format")
#: Files that may contain the table of variants, each with the keys of the enclosing table.
_PLACES: Mapping[str, tuple[str, ...]] = {"pyproject.toml": ("tool", "jsbench"), "jsbench.toml": ()}
_KEY = "variants"
#: Name of the variant with unchanged schemas, next to variants with rewritten schemas.
_ORIGINAL = "original"
#: Default number of calls in flight per process if calls begin at a rate, since a slow answer must not delay a call.
OPEN_LOOP_CONCURRENCY = 256
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+-]+")
_LONGEST_NAME = 100
#: Maximum number of characters that one option contributes to a variant's name.
_LONGEST_PART = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingFolder:
    """The directory in which a variant's answers are recorded, and how recorded answers are used."""

    path: Path
    #: Whether recorded answers are reused, so that the engine is called only for missing answers.
    only_new: bool = False
    #: Whether a recorded answer is reused only if it was recorded with the same settings.
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """
    Engine, sampling parameters and prompt for calls of a run.

    A run has either one variant without a name, or several variants with names.
    """

    name: str = ""
    factory: EngineFactory
    engine: EngineConfig
    #: Engine and sampling options that the user set, without secrets, for storage in each recording.
    user_settings: Mapping[str, Any]
    template: Template
    #: Number of examples (shots) in the prompt before the question.
    shots: int = 0
    #: Requested sampling parameters; the engine may not apply all of them.
    params: GenerationParams
    #: How schemas are adapted: `verbatim`, or a mode and a subset of JSON Schema, such as `narrow:openai@2026-08`.
    adapt: str = "verbatim"
    #: How schemas are rewritten into schemas that accept the same answers; None if they are not.
    rewrite: Rewriting | None = None
    #: Context length in tokens; None if the engine's default applies.
    context: int | None = None
    #: Maximum number of calls in flight in this process.
    concurrency: int
    #: How wrong answers are asked for again; None if they are not.
    repairs: RepairPlan | None = None
    #: Where answers are recorded; None if answers are not recorded.
    recording: RecordingFolder | None = None

    @property
    def sampled(self) -> GenerationParams:
        """Sampling parameters that the engine actually applies, with the engine's defaults."""
        return self.factory.sampled(self.engine, self.params)

    @classmethod
    def of(
        cls,
        name: str,
        ask: Ask,
        recordings: RecordingOptions,
        *,
        factory: EngineFactory | None = None,
        workers: int = 1,
    ) -> Variant:
        """Return the variant that the options describe; raise JSBenchError if an option is invalid or missing."""
        replay = recordings.replay
        engine = _engine(ask) if replay is None else _replay_engine(replay, name, strict=recordings.replay_strict)
        if factory is None or replay is not None:
            factory = find(engine.name)
        params = GenerationParams(**{"max_tokens": factory.max_tokens, **ask.pick(CALL_OPTIONS)})
        calls = factory.slots(engine)
        share = -(-calls // workers) if factory.shared else calls
        mode, subset = ask.adapt
        # If answers are replayed, `engine` can only come from the ini file.
        user_settings = {} if ask.engine is None else _engine(ask).public_settings()
        user_settings |= ask.pick(SAMPLING_OPTIONS)
        return cls(
            factory=factory,
            engine=engine,
            user_settings=user_settings,
            params=params,
            adapt=adaptation(mode, subset, engine=ask.engine or "recorded"),
            context=ask.context,
            concurrency=ask.concurrency or share,
            **_run_fields(name, ask, recordings),
        )

    def with_options(self, name: str, ask: Ask, recordings: RecordingOptions) -> Variant:
        """Return this variant with the options that do not depend on the engine, such as name, prompt and recording."""
        context = ask.context or self.context
        concurrency = ask.concurrency or self.concurrency
        return replace(self, context=context, concurrency=concurrency, **_run_fields(name, ask, recordings))


def make_variants(
    spec: RunSpec,
    *,
    own_engines: Mapping[str, Variant | EngineFactory] = MappingProxyType({}),
    workers: int = 1,
) -> dict[str, Variant]:
    """
    Return the variants by name; if an option is invalid, raise a JSBenchError that names the variant.

    `own_engines` contains engines from a Python program, each as a variant with an open engine or as a factory.
    """
    recordings = spec.recordings
    is_batch = spec.execution.batch is not None
    if is_batch and sum(not ask.rewrite for ask in spec.asks.values()) > 1:
        message = f"--jsbench-batch: expected one variant, found {', '.join(spec.asks)}; run each variant separately"
        raise BatchError(message, found=tuple(spec.asks), option="batch")
    if recordings.replay is None:
        for name, ask in spec.asks.items():
            _require_engine(name, ask, recordings)
    variants = {}
    for name, ask in spec.asks.items():
        engine = own_engines.get(name)
        with errors_of(name):
            if isinstance(engine, Variant):
                variant = engine.with_options(name, ask, recordings)
            else:
                variant = Variant.of(name, ask, recordings, factory=engine, workers=workers)
            if spec.cases.instances is not None:
                require_matcher(variant.factory, variant.engine.name)
            if is_batch:
                require_batches(variant.factory, variant.engine.name)
            if spec.load.rate is not None and recordings.replay is None and ask.concurrency is None:
                variant = replace(variant, concurrency=OPEN_LOOP_CONCURRENCY)
        variants[name] = variant
    return variants


def _require_engine(name: str, ask: Ask, recordings: RecordingOptions) -> None:
    """Raise JSBenchError if the variant has no engine."""
    if ask.engine is not None:
        return
    message = "no engine is set: add --jsbench-engine=NAME"
    if name:
        message = f"variant '{name}' has no engine: set engine in its table, or add --jsbench-engine=NAME"
    if recordings.record is not None:
        needs = "--jsbench-record needs an engine"
        message = f"{needs}: add --jsbench-engine=NAME, or set jsbench_engine in the ini file"
    raise JSBenchError(message, option="engine")


def errors_of(variant: str) -> AbstractContextManager[None]:
    """Return a context manager that prefixes user-facing errors with the variant's name, if the name is not empty."""
    return errors_about(f"variant '{variant}'" if variant else "")


def _run_fields(name: str, ask: Ask, recordings: RecordingOptions) -> dict[str, Any]:
    """Return the fields of a `Variant` that do not depend on the engine: name, prompt and recording."""
    record = recordings.record
    recording = None
    if record is not None:
        recording = RecordingFolder(
            path=record / safe_name(name) if name else record,
            only_new=recordings.record_mode == "new",
            strict=recordings.replay_strict,
        )
    template = template_of(ask.prompt, shots=ask.shots)
    rewrite = Rewriting.parse(ask.rewrite[0]) if ask.rewrite else None
    return {
        "name": name,
        "template": template,
        "shots": ask.shots,
        "recording": recording,
        "repairs": RepairPlan.of(ask.repairs),
        "rewrite": rewrite,
    }


def _engine(ask: Ask) -> EngineConfig:
    if ask.engine is None:
        raise JSBenchError("no engine is set: add --jsbench-engine=NAME", option="engine")
    return EngineConfig(
        name=ask.engine,
        model=ask.model,
        base_url=ask.base_url,
        api_key_env=ask.api_key_env,
        response_format=ask.response_format,
        options=dict(ask.engine_option),
    )


def _replay_engine(path: Path, variant: str, *, strict: bool) -> EngineConfig:
    """
    Return the configuration of the engine that replays a variant's answers, from a directory of recordings or from the
    records of a run.
    """
    if is_run_path(path):
        options = {"records": str(path), "strict": strict, **({"variant": variant} if variant else {})}
        return EngineConfig(name="replay", options=options)
    folder = path / safe_name(variant) if variant else path
    return EngineConfig(name="recorded", options={"folder": str(folder), "strict": strict})


def _clean_name(text: str) -> str:
    """Return the text without characters that are unsafe in node ids, gates and directory names; possibly empty."""
    return _UNSAFE.sub("-", text)[:_LONGEST_NAME].strip("-.")


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantsTable:
    """The table of variants, from `[[tool.jsbench.variants]]` in pyproject.toml or `[[variants]]` in jsbench.toml."""

    path: Path
    #: Option values that each variant sets, by the name of the variant.
    rows: Mapping[str, Values]

    @classmethod
    def read(cls, folder: Path, *, here: Path) -> VariantsTable | None:
        """Return the table in a directory, or None; raise JSBenchError that states where the table is invalid."""
        tables: dict[Path, list[Any]] = {}
        for name in _PLACES:
            rows = _read_table(folder / name)
            if rows is not None:
                tables[folder / name] = rows
        if len(tables) > 1:
            message = f"variants are defined in {' and in '.join(map(str, tables))}; define them in only one file"
            raise JSBenchError(message, where=folder)
        for path, rows in tables.items():
            return cls(path=path, rows=dict(_rows(rows, path, here=here)))
        return None

    def take(self, names: Sequence[str]) -> Mapping[str, Values]:
        """Return the rows with these names, in the order of the names; raise JSBenchError for unknown names."""
        if names == ("all",):
            return self.rows
        for name in names:
            if name not in self.rows:
                message = f"--jsbench-variants: no variant '{printable(name, 60)}' in {self.path}: "
                raise JSBenchError(message + nearest(name, self.rows), found=name, option="variants")
        return {name: self.rows[name] for name in names}


def _read_table(path: Path) -> list[Any] | None:
    """Return the rows of the table of variants; None if the file does not exist or has no such table."""
    if not path.is_file():
        return None
    try:
        table: Any = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise JSBenchError(f"{path}: cannot be read: {error}", where=path) from None
    keys = _PLACES[path.name]
    for key in keys:
        table = table.get(key, {}) if isinstance(table, dict) else table
    where = f"[{'.'.join(keys)}] of {path}" if keys else str(path)
    if not isinstance(table, dict) or not isinstance(table.get(_KEY, []), list):
        raise JSBenchError(f"{where}: expected [[{'.'.join([*keys, _KEY])}]], one table per variant", where=path)
    for key in table:
        if key != _KEY:
            message = f"{where}: unknown key '{printable(key, 60)}': {nearest(key, [_KEY])}"
            raise JSBenchError(message, found=key, where=path)
    return table.get(_KEY)


def _rows(entries: list[Any], path: Path, *, here: Path) -> Iterator[tuple[str, Values]]:
    names: set[str] = set()
    for number, entry in enumerate(entries, start=1):
        given = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(given, str) or not (name := _clean_name(given)) or name == "all":
            expected = "expected a name with letters or digits, such as name = \"small\", and not 'all'"
            shown = f"'{printable(given, 60)}'" if given and isinstance(given, str) else _kind_of(given)
            raise JSBenchError(f"{path}: variant {number}: name is {shown}; {expected}", where=path)
        if name.casefold() in names:
            message = f"{path}: variant {number}: duplicate name '{name}'; give each variant a different name"
            raise JSBenchError(message, found=name, where=path)
        names.add(name.casefold())
        yield name, dict(_row_values(entry, f"{path}: variant '{name}'", path.parent, here))


def _row_values(entry: Values, where: str, folder: Path, here: Path) -> Iterator[tuple[str, Any]]:
    for key, given in entry.items():
        name = key.replace("-", "_")
        if name == "name":
            continue
        if name not in SETTABLE:
            message = f"{where}: unknown key '{printable(key, 60)}': {nearest(key, ['name', *SETTABLE])}"
            raise JSBenchError(message, found=key, where=where)
        try:
            value = _read_value(BY_NAME[name], given)
        except ValueError as error:
            raise JSBenchError(f"{where}: {key}: {error}", where=where) from None
        yield name, place(BY_NAME[name], value, folder, here)


def _read_value(option: Option[Any], given: object) -> Any:
    """Parse a value in the table like the value of the option; raise ValueError for an unexpected type."""
    if option.repeated:
        if not isinstance(given, dict) or not _is_json(given):
            raise ValueError(f"expected a table such as {{ stream = false }}, found {_kind_of(given)}")
        return list(given.items())
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise ValueError(f"expected a string or a number, found {_kind_of(given)}")
    return option.of_text(str(given))


def _is_json(value: object) -> bool:
    """Return whether a TOML value can be represented in JSON; dates, for example, cannot."""
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return isinstance(value, str | bool | int | float)


def _kind_of(value: object) -> str:
    """Return the type of a value for error messages, which must not show the value: it may be a secret."""
    kinds = {dict: "a table", list: "an array", str: "a string", type(None): "missing"}
    return "an empty string" if value == "" else kinds.get(type(value), kind_of(value))


def resolve_variant_values(
    values: Values, typed: Mapping[str, Sequence[str]], *, folder: Path | None, here: Path
) -> tuple[dict[str, Values], str]:
    """
    Return the option values of each variant, by name; also return the reason if the table of variants is not used.

    A single variant without a table has an empty name. Each rewriting of schemas defines another variant. `typed`
    contains the values on the command line, as texts by option: several values of one option define one variant each.
    The table of variants is read from `folder`, and its paths are converted to paths relative to `here`. If answers are
    recorded or replayed, the table applies only with --jsbench-variants, so that a project's own tests record and
    replay without it. A replayed run uses the prompts of the recorded run. Raise JSBenchError for an invalid table or
    option.
    """
    if len(dict.fromkeys(typed.get("engine", ()))) > 1:
        message = "--jsbench-engine is set more than once, which would combine every model with every engine; "
        raise JSBenchError(message + "define each variant in [[tool.jsbench.variants]] of pyproject.toml")
    values = {**values, **_typed_rewritings(typed)}
    table = None if folder is None else VariantsTable.read(folder, here=here)
    rows, left_out = _select_rows(values, table, typed)
    variants = []
    for (row_name, row), *points in itertools.product(rows.items(), *_axes(typed)):
        changed = _with_changes(_without_other_engine(values, row, typed), row)
        for _, change in points:
            changed = _with_changes(changed, change)
        parts = filter(None, map(_clean_name, (row_name, *(part for part, _ in points))))
        variants.append((_clean_name("-".join(parts)), changed))
    names = [name for name, _ in variants]
    replay = values.get("replay")
    if names == [""] and replay is not None:
        recorded = _variants_of_run(replay, values)
        if recorded:
            return recorded, left_out
    if len(variants) > 1:
        names = _unique(names)
    named = dict(zip(names, (changed for _, changed in variants), strict=True))
    return {name: changed for name, (_, changed) in with_rewritings(named).items()}, left_out


def with_rewritings(variants: Mapping[str, Values]) -> dict[str, tuple[str, Values]]:
    """
    Return the variants by name, each followed by a variant for each rewriting of its schemas.

    An entry is the name of the variant in `variants`, and the option values. A single variant without a name is named
    `original` if it has rewritings.
    """
    entries: list[tuple[str, str, Values]] = []
    for name, values in variants.items():
        rewritings = values.get("rewrite") or ()
        if not rewritings:
            entries.append((name, name, values))
            continue
        entries.append((name or _ORIGINAL, name, {**values, "rewrite": ()}))
        for rewriting in rewritings:
            own_name = _clean_name("-".join(filter(None, (name, rewriting))))
            entries.append((own_name, name, {**values, "rewrite": (rewriting,)}))
    names = [name for name, _, _ in entries]
    names = _unique(names) if len(names) > 1 else names
    return {name: (origin, values) for name, (_, origin, values) in zip(names, entries, strict=True)}


def _typed_rewritings(typed: Mapping[str, Sequence[str]]) -> Values:
    """Return the rewritings in all occurrences of the option on the command line; empty if there are none."""
    option = BY_NAME["rewrite"]
    found: list[str] = []
    for text in typed.get(option.name, ()):
        try:
            found += option.of_text(text)
        except ValueError as error:
            raise JSBenchError(f"{option.flag}: {error}", option=option.name) from None
    return {option.name: tuple(dict.fromkeys(found))} if found else {}


def _variants_of_run(path: Path, values: Values) -> dict[str, Values]:
    """Return the values for each variant of a replayed run, with the prompts of the run; empty if it cannot be read."""
    try:
        variants = journal.read_header(path).variants if is_run_path(path) else ()
    except JSBenchError:  # the replay engine will report that the run cannot be read
        variants = ()
    return {
        then.variant: {
            **values,
            "prompt": then.prompt,
            "shots": then.shots,
            "rewrite": (then.rewrite,) if then.rewrite else (),
        }
        for then in variants
    }


def is_run_path(path: Path) -> bool:
    """Return whether the path is a run's records or its directory, rather than a directory of recordings."""
    return path.is_file() or (path / "records.jsonl").is_file()


def _select_rows(
    values: Values, table: VariantsTable | None, typed: Mapping[str, Sequence[str]]
) -> tuple[Mapping[str, Values], str]:
    """Return the selected rows of the table, or one empty row, and the reason if the table is not used."""
    nothing: Mapping[str, Values] = {"": {}}
    names = values.get("variants")
    recorded = bool(values.get("record") or values.get("replay"))
    if table is None and names is not None:
        message = "--jsbench-variants: found neither [[tool.jsbench.variants]] in pyproject.toml nor [[variants]] in "
        raise JSBenchError(message + "jsbench.toml; define the variants in one of them", option="variants")
    if table is None or not (rows := table.rows if names is None else table.take(names)):
        return nothing, ""
    if recorded and names is None:
        return (
            nothing,
            f"the variants in {table.path} are not used; to record or replay them, add --jsbench-variants=all",
        )
    conflict = next((conflict for name, row in rows.items() if (conflict := _find_conflict(name, row, typed))), None)
    if conflict is None:
        return rows, ""
    flag, row_name = conflict
    no_other_engine = values.get("engine") is None and not recorded
    if names is not None and (no_other_engine or "variants" in typed):
        message = f"{flag} conflicts with variant '{row_name}' in {table.path}: remove "
        raise JSBenchError(f"{message}{flag} or --jsbench-variants", option="variants")
    return nothing, f"the variants in {table.path} are not used, since {flag} is on the command line"


def _find_conflict(row_name: str, row: Values, typed: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
    """
    Return the first option that both the command line and the row set, with the name of the row; None if there is no
    such option.
    """
    for name, texts in typed.items():
        flag = BY_NAME[name].flag
        if name != "engine_option" and name in row:
            return flag, row_name
        keys = {key for key, _ in row.get("engine_option", ())} if name == "engine_option" else set()
        for key, _ in map(assignment, texts) if keys else ():
            if key in keys:
                return f"{flag}={key}", row_name
    return None


def _axes(typed: Mapping[str, Sequence[str]]) -> Iterator[list[tuple[str, Values]]]:
    """
    Yield a list for each option that is given with several values: for each value, the part of the variant's name and
    the change of the options.
    """
    for name in [name for name in typed if name in MULTIPLIED]:
        option = BY_NAME[name]
        by_key: dict[str, dict[str, tuple[str, Values]]] = {}
        for text in typed[name]:
            try:
                value = option.of_text(text)
            except ValueError as error:
                raise JSBenchError(f"{option.flag}: {error}", option=name) from None
            key = value[0] if option.repeated else ""
            change = {name: [value] if option.repeated else value}
            by_key.setdefault(key, {}).setdefault(repr(value), (_part(option, text), change))
        yield from ([*points.values()] for points in by_key.values() if len(points) > 1)


def _part(option: Option[Any], text: str) -> str:
    """Return the part of a variant's name for one value of an option, without secrets."""
    if option.repeated:
        key, _ = assignment(text)
        return f"{key}-{shown_text(option, text).partition('=')[2]}"[:_LONGEST_PART]
    shown = shown_text(option, text)
    if option.name == "base_url":
        shown = shown.partition("://")[2] or shown
    elif PurePath(shown).is_absolute():
        shown = PurePath(shown).name
    return shown[-_LONGEST_PART:] if option.name in _NAMED else f"{option.name.replace('_', '-')}-{shown}"


def _unique(names: Iterable[str]) -> list[str]:
    """Append numbers to names so that all differ, even if case is ignored."""
    unique: dict[str, str] = {}
    for name in names:
        numbered = itertools.chain([name] if name else (), (f"{name or 'variant'}-{n}" for n in itertools.count(2)))
        free = next(candidate for candidate in numbered if candidate.casefold() not in unique)
        unique[free.casefold()] = free
    return [*unique.values()]


def _without_other_engine(values: Values, row: Values, typed: Mapping[str, Sequence[str]]) -> Values:
    """Remove the ini file's settings for its engine if the row sets another engine."""
    if values.get("engine") in {None, row.get("engine", values.get("engine"))}:
        return values
    left_out = {name: None for name in _OF_ENGINE if name not in typed}
    return {**values, **left_out, "engine_option": list(map(assignment, typed.get("engine_option", ())))}


def _with_changes(values: Values, change: Values) -> Values:
    """Return the values with the changes applied; engine options extend the existing engine options."""
    options = [*(values.get("engine_option") or ()), *change.get("engine_option", ())]
    return {**values, **change, "engine_option": options}
