"""Generate parts of the pages from the code; `python -m tools.reference` rewrites them."""

from __future__ import annotations

import argparse
import ast
import html
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, assert_never

import pytest_jsbench
from pytest_jsbench.adaptation.subsets import PROFILES, Subset
from pytest_jsbench.cli.engines import default_model, streams
from pytest_jsbench.cli.main import _parser
from pytest_jsbench.core.generations import DeclineReason, FaultKind, FinishReason
from pytest_jsbench.engines.presets import ProviderPreset, is_preset
from pytest_jsbench.engines.presets import presets as all_presets
from pytest_jsbench.engines.providers.finish_reasons import TABLES, Meaning
from pytest_jsbench.engines.registry import names as engine_names
from pytest_jsbench.lab.published import published_coverage, published_masks, row_to_dict
from pytest_jsbench.metrics.figure import Better, Figure, Kind, Shown
from pytest_jsbench.metrics.figures import FIGURES, TIMES
from pytest_jsbench.settings.options import BY_NAME, GROUPS
from tools.syntax_examples import REASONS, ReasonExamples

ROOT = Path(__file__).parents[1]
PACKAGE = Path(pytest_jsbench.__file__).parent

#: A valid value of each option.
EXAMPLES: Mapping[str, str] = {
    "engine": "local",
    "model": "gpt-5.4-mini",
    "base_url": "http://localhost:8000/v1",
    "api_key_env": "OPENROUTER_API_KEY",
    "response_format": "text",
    "tool_choice": "required",
    "temperature": "0.7",
    "max_tokens": "512",
    "seed": "7",
    "engine_option": "stream=false",
    "variants": "small,large",
    "record": "tests/answers",
    "record_mode": "new",
    "replay": "tests/answers",
    "replay_strict": "on",
    "preset": "jsonschemabench",
    "dataset": "schemas",
    "instances": "builtin",
    "tasks": "simple,medium",
    "split": "all",
    "limit": "30",
    "registry": "shared/schemas",
    "where": "size<4096",
    "sample": "300:7",
    "adapt": "narrow:openai",
    "prompt": "chat",
    "shots": "2",
    "context": "8192",
    "repairs": "2:blind",
    "rewrite": "order,inline",
    "concurrency": "32",
    "rpm": "450",
    "rate": "8/s:poisson",
    "plain_share": "0.3",
    "slo": "ttft<=0.5,tgt<=4",
    "tpm": "180000",
    "max_cost": "5",
    "batch": "leave",
    "resume": "runs",
    "shard": "2/5",
    "timeout": "60",
    "retries": "4",
    "isolate_crashes": "on",
    "reduce": "3",
    "patience": "900",
    "repeats": "5",
    "dry_run": "on",
    "invalid_schemas": "skip",
    "extra_fields": "$schema,_comment",
    "duplicate_keys": "fail",
    "fences": "forbid",
    "reasoning": "strip",
    "formats": "ignore",
    "default_dialect": "draft-07",
    "validator": "jsonschema",
    "judge_timeout": "10",
    "classify": "own_classifiers:in_german",
    "comparer": "total=tolerance:0.01",
    "min_pass_rate": "0.9",
    "gate": "ttft_p95<=2",
    "baseline": "baseline.json",
    "quarantine": "quarantine.txt",
    "max_regression": "0.02",
    "redact": "on",
    "output": "runs",
    "export": "every_eval_ever=exported",
    "report": "report.html",
    "benchmark_rows": "case",
}

#: Unit of a figure whose row does not specify one.
_UNITS = {Kind.RATE: "0 to 1", Kind.VALUES: "0 to 1", Kind.COUNT: "count", Kind.SUM: "tokens"}
_BETTER = {Better.HIGHER: "higher", Better.LOWER: "lower", Better.NEITHER: ""}

#: Names of JSON types on the pages.
_SCALARS = {"string": "text", "integer": "whole number"}


def figures() -> str:
    """Return the table of all figures; a time has one row for its whole distribution, a group one for its members."""
    lines = ["| name | for people | its column | unit | better | a share or mean of |", "|---|---|---|---|---|---|"]
    groups: dict[str, Figure] = {}
    for row in FIGURES.values():
        time = TIMES.get(row.name.rpartition("_")[0])
        groups.setdefault(time.name if time else row.name.partition(".")[0], time or row)
    for name, row in groups.items():
        title = re.sub(r"\b1$|: .*", lambda end: "k" if end[0] == "1" else "", row.title)
        column = row.heading or row.title if row.tables | row.wide_only is not Shown.NOWHERE else ""
        of = f"`{row.of}`" if row.of else ""
        cells = (f"`{name}`", title, column, row.unit or _UNITS[row.kind], _BETTER[row.better], of)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def options() -> str:
    """Return the description of every option, in groups."""
    lines: list[str] = []
    for group in GROUPS:
        lines += [f"## {group.heading}", ""]
        for option in group.options.values():
            example = EXAMPLES[option.name]
            shown = f"'{example}'" if re.search(r"[<>$ ]", example) else example
            lines += [f"### `{option.flag}`", "", f"`{option.flag} {option.placeholder}`: {option.help}", ""]
            lines += ["```text", f"{option.flag}={shown}", f"{option.dest} = {example}", "```", ""]
    return "\n".join(lines).rstrip()


def commands() -> str:
    """Return the description of every command of `jsbench`, with its arguments."""
    (of_commands,) = (one for one in _parser()._actions if isinstance(one, argparse._SubParsersAction))
    return "\n".join(_commands(of_commands, "jsbench")).rstrip()


def _commands(found: argparse._SubParsersAction[argparse.ArgumentParser], name: str) -> Iterator[str]:
    for choice in found._choices_actions:
        command = found.choices[choice.dest]
        yield from (f"## {name} {choice.dest}", "", str(command.description), "", "| argument | meaning |", "|---|---|")
        inner = [one for one in command._actions if isinstance(one, argparse._SubParsersAction)]
        yield from (
            _argument(one) for one in command._actions if not isinstance(one, argparse._HelpAction | type(found))
        )
        yield ""
        for one in inner:
            yield from _commands(one, f"{name} {choice.dest}")


def _argument(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else None
    if value is None and action.choices is not None:
        value = ", ".join(action.choices)
    several = "…" if action.nargs == "+" else ""
    names = ", ".join(action.option_strings)
    shown = " ".join(part for part in (names, f"{value}{several}" if value else "") if part)
    shown = shown.replace("|", "&#124;").replace("{", "").replace("}", "")
    needed = "needed" if action.required and action.option_strings else ""
    assert action.help, f"{shown} has no help"
    return f"| <code>{shown}</code> | {'; '.join(filter(None, (action.help, needed)))} |"


def layers() -> str:
    """Return the table of packages by layer, from the lowest layer up."""
    lines = ["| layer | package | purpose |", "|---:|---|---|"]
    for number, layer in enumerate(reversed(contract("pytest_jsbench")), start=1):
        lines += [f"| {number} | `{package}` | {_first_sentence(package)} |" for package in layer]
    return "\n".join(lines)


def subpackages() -> str:
    """Return the table of subpackages."""
    found = sorted(path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob("*/*/__init__.py"))
    lines = ["| subpackage | purpose |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{package}/` | {_first_sentence(package)} |" for package in found)])


def contract(container: str) -> list[list[str]]:
    """Return the layers of a package in import-linter's contract, the highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (listed,) = (one["layers"] for one in contracts if one.get("containers") == [container])
    return [layer.split(" | ") for layer in listed]


def _first_sentence(module: str) -> str:
    path = PACKAGE / module / "__init__.py"
    path = path if path.exists() else PACKAGE / f"{module}.py"
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split()).rstrip(":.")


def fields_of_records() -> str:
    """Return the tables of the fields of both kinds of line of records.jsonl."""
    schema = format_of("records")
    header, record = schema["oneOf"]
    sections = [("The header line", header), ("A record", record)]
    sections += [(f"`{name}`", schema["$defs"][name]) for name in ("completion", "declined", "failed", "decided")]
    sections += [(f"`{name}`", schema["$defs"][name]) for name in ("timing", "usage", "sent", "verdict", "run")]
    return _tables(sections)


def fields_of_runs() -> str:
    """Return the tables of the fields of run.json."""
    schema = format_of("run")
    run, shared = schema["$defs"]["run"], format_of("records")["$defs"]["run"]
    added = {name: field for name, field in run["properties"].items() if name not in shared["properties"]}
    sections = [("The file", schema), ("Fields of `run` in addition to the header's", {"properties": added})]
    return _tables(sections)


def format_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a file that the package writes."""
    found: dict[str, Any] = json.loads((PACKAGE / "formats" / f"{name}.schema.json").read_text("utf-8"))
    return found


def _tables(sections: list[tuple[str, dict[str, Any]]]) -> str:
    lines: list[str] = []
    for title, schema in sections:
        lines += [f"**{title}**", "", "| field | type | meaning |", "|---|---|---|", *_rows(schema, ""), ""]
    return "\n".join(lines).rstrip()


def _rows(schema: dict[str, Any], prefix: str) -> Iterator[str]:
    for name, field in _objects(schema).get("properties", {}).items():
        yield f"| `{prefix}{name}` | {_type(field)} | {field['description']} |"
        if "$ref" not in field:
            yield from _rows(field, f"{prefix}{name}.")
            yield from _rows(_objects(field).get("items", {}), f"{prefix}{name}[].")


def _objects(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the alternative with properties, for a field that may be null."""
    alternatives = [one for one in schema.get("anyOf", []) if "properties" in one]
    return alternatives[0] if alternatives else schema


def _type(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(one) for one in field["anyOf"]))
    if "$ref" in field:
        return f"`{field['$ref'].rpartition('/')[2]}`"
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{json.dumps(one)}`" for one in field["enum"])
    kinds = field.get("type", "any value")
    shown = [_SCALARS.get(kind, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    return " or ".join(shown)


def syntax_reasons() -> str:
    """Return the table of reasons why a text is not one JSON document, in the order in which they are checked."""
    lines = ["| reason of `syntax_error` | the text | such as |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| `{reason}` | {row.meaning} | {_texts(row)} |" for reason, row in REASONS.items())])


def _texts(row: ReasonExamples) -> str:
    """Return the examples of a reason; characters that are not printable become Python escapes."""
    if row.shown is not None:
        return row.shown
    shown = ["".join(one if one.isprintable() else repr(one)[1:-1] for one in text) for text in row.texts]
    return ", ".join(f"<code>{_verbatim(text)}</code>" if text else "no text" for text in shown)


def _verbatim(text: str) -> str:
    """Return the text escaped for a cell of a Markdown table."""
    return html.escape(text, quote=False).replace("|", "&#124;").replace("`", "&#96;")


def keywords() -> str:
    """Return the table of how each keyword declares field names, with tested schemas."""
    rows = json.loads((ROOT / "tests" / "verdicts" / "keywords.json").read_text("utf-8"))
    lines = [f"| {' | '.join(rows[0])} |", "|---" * len(rows[0]) + "|"]
    for row in rows:
        keyword, dialects, *columns = row.values()
        cells = (", ".join(f"`{json.dumps(schema)}`" for schema in schemas) or "\N{EN DASH}" for schemas in columns)
        lines.append(f"| `{keyword}` | {dialects} | {' | '.join(cells)} |")
    return "\n".join(lines)


def default_models() -> str:
    """Return the table of the engines with a default model."""
    models = {name: default_model(name) for name in engine_names() if not is_preset(name)}
    rows = [f"| `{name}` | `{model}` |" for name, model in models.items() if model]
    return "\n".join(["| engine | default model |", "|---|---|", *rows])


def presets() -> str:
    """Return the table of presets, with the features of each provider."""
    heads = "preset | provider | response formats | strict | streams | tools | reasoning | batch | subset | as of"
    lines = [f"| {heads} |", "|---" * (heads.count("|") + 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(_cells(preset))} |" for preset in all_presets())])


def _cells(preset: ProviderPreset) -> Iterator[str]:
    yield f"`{preset.name}`"
    yield preset.title
    named = len(preset.formats) > 1
    yield "; ".join((f"`{api}`: " if named else "") + ", ".join(listed) for api, listed in preset.formats.items())
    strict = preset.strict
    yield ", ".join(f"`{one}`" for one in strict) if isinstance(strict, tuple) else _yes(strict)
    yield streams(preset) + ("" if preset.stream_options else ", without usage")
    yield _yes(any("tool" in listed for listed in preset.formats.values()))
    asked = [field for field in (preset.effort_field, preset.budget_field) if isinstance(field, str)]
    yield ", ".join(f"`{field}`" for field in asked) or "not known"
    yield "no"
    yield f"`{preset.subset}`" if preset.subset else "not known"
    sources = ", ".join(f"[{number}]({source})" for number, source in enumerate(preset.sources, start=1))
    yield f"{preset.date}: {sources}"


def subsets() -> str:
    """Return the table of the dated profiles of providers' subsets of JSON Schema."""
    rows = [
        f"| `{one.version}` | {', '.join(_facts(one))} | [documentation]({one.source}) |" for one in PROFILES.values()
    ]
    return "\n".join(["| profile | requirements | source |", "|---|---|---|", *rows])


def _facts(subset: Subset) -> Iterator[str]:
    yield "closed objects" if subset.closed else "open or closed objects"
    if subset.all_required:
        yield "every property required"
    if subset.object_root:
        yield "an object as root"
    yield {"any": "recursion", "optional": "recursion through optional properties", "none": "no recursion"}[
        subset.recursion
    ]
    missing = [name for name in ("pattern", "format", "minimum", "minItems", "allOf") if name not in subset.keywords]
    yield f"no {', '.join(f'`{name}`' for name in missing)}"


def preset_traps() -> str:
    """Return notes on each provider."""
    lines = [f"- `{preset.name}`: {'; '.join(preset.traps)}" for preset in all_presets() if preset.traps]
    return "\n".join(lines)


def published() -> str:
    """Return the table of the published coverage by task and framework."""
    table = published_coverage()
    frameworks = list(dict.fromkeys(name for row in table.tasks.values() for name in row))
    lines = [f"| task | {' | '.join(frameworks)} |", f"|---|{'---|' * len(frameworks)}"]
    for task, row in table.tasks.items():
        cells = (
            "n/a"
            if (one := row.get(name)) is None
            else " ".join(f"{part['value']:.2f}" for part in row_to_dict(one).values())
            for name in frameworks
        )
        lines.append(f"| `{task}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def published_times() -> str:
    """Return the table of the published times of masks, and the shares of schemas."""
    heads = [f"{time} {part}" for time in ("TBM (µs)", "TTFM (ms)") for part in ("mean", "p50", "p90", "p99")]
    lines = [f"| engine | {' | '.join(heads)} | compiled | passed |", f"|---|{'--:|' * (len(heads) + 2)}"]
    table = published_masks()
    for name, row in table.tasks["all"].items():
        cells = (column.exact_text_of(cell) for column, cell in zip(table.columns, row.values(), strict=True))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def published_options() -> str:
    """Return the list of options that the preset sets."""
    return "\n".join(f"- `{BY_NAME[name].flag}={text}`" for name, text in published_coverage().options.items())


def _yes(value: object) -> str:
    return "yes" if value else "no"


def finish_reasons() -> str:
    """Return a table of the finish reasons of each wire format."""
    lines = ["| API | finish reasons | mean | sent by | source |", "|---|---|---|---|---|"]
    for table in TABLES:
        for row in table.rows:
            words = ", ".join(f"`{word}`" for word in row.words)
            cells = (table.title, words, _meaning(row.meaning), row.servers, row.source)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _meaning(meaning: Meaning) -> str:
    match meaning:
        case FinishReason.UNKNOWN:
            return "unknown"
        case FinishReason():
            return f"`{meaning}`"
        case FaultKind():
            return f"api_error ({meaning})"
        case DeclineReason():
            return "refusal"
        case _:
            assert_never(meaning)


PARTS: Mapping[str, Callable[[], str]] = {
    "options": options,
    "commands": commands,
    "figures": figures,
    "layers": layers,
    "subpackages": subpackages,
    "records": fields_of_records,
    "run": fields_of_runs,
    "evaluation": lambda: _tables([("The file", format_of("evaluation"))]),
    "probe": lambda: _tables([("The whole", format_of("probe"))]),
    "history": lambda: _tables([("A line", format_of("history"))]),
    "default_models": default_models,
    "finish_reasons": finish_reasons,
    "presets": presets,
    "preset_traps": preset_traps,
    "preset_fields": lambda: _tables([("A preset", format_of("presets")["$defs"]["preset"])]),
    "published": published,
    "published_options": published_options,
    "published_times": published_times,
    "subsets": subsets,
    "syntax_reasons": syntax_reasons,
    "keywords": keywords,
}
_PART = re.compile(r"(<!-- from the code: (\w+) -->\n).*?(<!-- /from the code -->)", re.DOTALL)


def regenerate(page: str) -> str:
    """Return the page with its generated parts updated."""
    return _PART.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]()}\n\n{found[3]}", page)


def generated_parts(page: str) -> list[str]:
    """Return the names of the generated parts of a page."""
    return [found[2] for found in _PART.finditer(page)]


def assert_installed_anew() -> None:
    """Check that the installed entry points are those in pyproject.toml."""
    declared: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    of_groups = declared["entry-points"]
    points = metadata.distribution(declared["name"]).entry_points
    installed = {group: {point.name: point.value for point in points.select(group=group)} for group in of_groups}
    assert installed == of_groups, "the entry points of pyproject.toml have changed: run `pip install -e .` again"


def main() -> None:
    """Rewrite the generated parts of all pages."""
    assert_installed_anew()
    for path in sorted((ROOT / "docs").glob("*.md")):
        before = path.read_text("utf-8")
        if (after := regenerate(before)) != before:
            path.write_text(after, "utf-8")


if __name__ == "__main__":
    main()
