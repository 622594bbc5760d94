"""The command `jsbench engines`: list engines, presets, and the extensions that installed packages provide."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

from pytest_jsbench.cli.output import Output
from pytest_jsbench.core.errors import EngineError, JSBenchError
from pytest_jsbench.core.extensions import find_entry_points, origin, package_of
from pytest_jsbench.core.json_values import to_json
from pytest_jsbench.core.text import printable
from pytest_jsbench.engines import registry
from pytest_jsbench.engines.presets import PRESET_ENGINE, ProviderPreset, is_preset, readable_presets
from pytest_jsbench.reports.blocks import Block, Row, TableBlock

#: Option or command that uses an extension, by kind; `pytest_jsbench.<kind>s` is the kind's entry point group.
KINDS = {
    **dict.fromkeys(("engine", "preset"), "--jsbench-engine={}"),
    "dataset": "--jsbench-dataset={}",
    "prompt": "--jsbench-prompt={}",
    **dict.fromkeys(("classifier", "metric"), "--jsbench-classify={}"),
    "exporter": "--jsbench-export={}=PATH",
    "command": "jsbench {}",
    "publication": "--jsbench-preset={}",
}


def add_engines(commands: Any) -> None:
    """Declare `jsbench engines`."""
    engines = commands.add_parser(
        "engines",
        help="list engines, presets and extensions",
        description="List the engines with their options; the presets, which describe a provider or server as of a "
        "date; and the extensions of all installed packages, each with the option that uses the extension. "
        "No calls are made.",
    )
    engines.add_argument("name", nargs="*", metavar="NAME", help="only these engines and presets, with all details")
    engines.add_argument("--json", action="store_true", help="print only JSON, with all details")
    engines.set_defaults(command=_engines)


def _engines(options: argparse.Namespace, out: Output) -> bool:
    for name in options.name:
        registry.find(name)  # an unknown name raises an error that suggests the nearest name
    names = options.name or registry.names()
    readable, problems = readable_presets()
    problems = {name: problem for name, problem in problems.items() if name in names}
    chosen = [preset for preset in readable if preset.name in names]
    others: dict[str, list[str] | None] = {}
    models: dict[str, str] = {}
    for name in names:
        if is_preset(name):
            continue
        try:
            factory = registry.find(name)
        except JSBenchError as error:
            problems[name] = str(error)
            continue
        others[name] = None if factory.options is None else sorted(factory.options)
        if factory.default_model is not None:
            models[name] = factory.default_model
    if options.json:
        described = {preset.name: to_json(preset) for preset in chosen}
        data: dict[str, object] = {"engines": others, "presets": described, "default_models": models}
        data |= {"problems": problems} if problems else {}
        if not options.name:
            kinds = _extensions().items()
            data["extensions"] = {kind: {name: origin(point) for name, point in of.items()} for kind, of in kinds}
        out.json(data, indent=None)
    elif options.name:
        for preset in chosen:
            out.lines(_describe_preset(preset))
        for name, option_names in others.items():
            out.lines([f"{printable(name)}: {_format_value(option_names)}"])
            out.lines([f"  default model: {models[name]}"] if name in models else [])
        if problems:
            raise EngineError("; ".join(problems.values()), found=sorted(problems))
    else:
        out.report(_tables(others, models, chosen))
        out.lines([f"warning: {problem}" for problem in problems.values()])
    return True


def default_model(name: str) -> str | None:
    """Return the engine's default model; None if the engine has none."""
    return None if is_preset(name) else registry.find(name).default_model


def _tables(
    others: dict[str, list[str] | None], models: dict[str, str], chosen: list[ProviderPreset]
) -> Iterator[Block]:
    engines: list[Row] = [
        (name, (models.get(name, "-"), _format_value(option_names))) for name, option_names in others.items()
    ]
    yield TableBlock.of_texts("Engine", ("Default model", "Options"), engines)
    rows: list[Row] = [
        (each.name, (describe_format(each), streams(each), each.key or "-", each.subset or "-", each.date))
        for each in chosen
    ]
    yield TableBlock.of_texts("Preset", ("Sent as", "Streams", "Key", "Subset", "Date"), rows)
    hint = "jsbench engines NAME shows all details and sources"
    yield [("note", f"a preset accepts the options of {PRESET_ENGINE}, and needs --jsbench-model; {hint}")]
    extensions: list[Row] = [
        (f"{kind} {printable(name)}", (package_of(point), KINDS[kind].format(printable(name))))
        for kind, points in _extensions().items()
        for name, point in points.items()
    ]
    yield TableBlock.of_texts("Extension", ("Package", "Used by"), extensions)


def _extensions() -> dict[str, dict[str, EntryPoint]]:
    """Return the extensions of installed packages, by kind and name."""
    return {kind: find_entry_points(kind, error=JSBenchError) for kind in KINDS}


def describe_format(preset: ProviderPreset) -> str:
    """Describe how the schema is sent by default, and whether strict enforcement is requested."""
    strongest = preset.formats[preset.apis[0]][0]
    strict = preset.strict
    if strongest not in ("json_schema", "tool") or strict is False:
        return strongest.value
    return f"strict {strongest}" + (" with some models" if isinstance(strict, tuple) else "")


def streams(preset: ProviderPreset) -> str:
    """
    Return the response formats whose answers are not streamed, as text such as `not tool`; `yes` if
    all are streamed.
    """
    return f"not {', '.join(preset.unstreamed)}" if preset.unstreamed else "yes"


def _describe_preset(preset: ProviderPreset) -> Iterator[str]:
    yield f"{preset.name}: {preset.title}, as of {preset.date}"
    for field in preset.__struct_fields__:
        value = getattr(preset, field)
        if field not in ("name", "title", "date", "traps") and value not in (None, (), {}):
            yield f"  {field}: {_format_value(value)}"
    for trap in preset.traps:
        yield f"  ! {trap}"


def _format_value(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return str(value).lower()
        case dict():
            return "; ".join(f"{name}: {_format_value(each)}" for name, each in value.items())
        case list() | tuple():
            return ", ".join(map(str, value)) or "none"
        case _:
            return str(value)
