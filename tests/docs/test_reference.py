"""Check the pages against the code."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import pytest_jsbench
from pytest_jsbench.datasets import base as datasets
from pytest_jsbench.engines import base, registry
from pytest_jsbench.engines.presets import PRESET_NAMES
from pytest_jsbench.engines.recorded.recordings import RecordingFile
from pytest_jsbench.metrics.figures import COUNTS
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.settings.options import BY_NAME
from pytest_jsbench.verdicts import FailureType, Note
from pytest_jsbench.verdicts.extra_fields import ExtraFieldReason
from pytest_jsbench.verdicts.verdicts import SchemaReason, SyntaxReason
from tests.support.bench import Bench
from tests.support.examples import run as run_of
from tools import formats
from tools.reference import EXAMPLES, PARTS, ROOT, figures, format_of, generated_parts, regenerate

PAGES = sorted((ROOT / "docs").glob("*.md"))


def text(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generated_parts_of_a_page_are_current(page: Path) -> None:
    written = page.read_text("utf-8")

    assert regenerate(written) == written, "python -m tools.reference rewrites it"


def test_every_page_is_in_the_navigation() -> None:
    named = re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), flags=re.MULTILINE)

    assert sorted(named) == sorted(page.name for page in PAGES)


def test_readme_links_to_existing_files() -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / "README.md").read_text("utf-8"))

    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_generated_part_is_on_a_page() -> None:
    assert sorted(part for page in PAGES for part in generated_parts(page.read_text("utf-8"))) == sorted(PARTS)


def test_every_option_has_a_valid_example() -> None:
    assert sorted(EXAMPLES) == sorted(BY_NAME)
    for name, example in EXAMPLES.items():
        BY_NAME[name].of_text(example)


def test_files_of_a_run_have_exactly_the_documented_fields(bench: Bench) -> None:
    bench.case("passed")
    bench.case("violated", '{"n": -1}')
    bench.case("unsupported", {"decline": "unsupported_schema"})
    bench.case("broke", {"fault": "bad_request"})
    bench.run("--jsbench-output=out", "--jsbench-gate=n>=1")
    (folder,) = (bench.path / "out").iterdir()
    header, *records = [json.loads(line) for line in (folder / "records.jsonl").read_text("utf-8").splitlines()]
    run = json.loads((folder / "run.json").read_text("utf-8"))
    lines = format_of("records")
    of_header, of_record = lines["oneOf"]

    assert header.keys() == of_header["properties"].keys()
    not_always = {"variant", "expected", "match", "test_outcome", "called_again", "scores", "offer", "repairs"} | {
        "value_digest",
        "transit",
        "load",
    }
    assert all(record.keys() == of_record["properties"].keys() - not_always for record in records)
    of_verdict = lines["$defs"]["verdict"]["properties"].keys() - {"conforming_calls", "runaway_share"}
    assert all(record["verdict"].keys() == of_verdict for record in records)
    assert run.keys() == format_of("run")["properties"].keys() - {"variants", "comparisons", "differing", "quarantine"}
    for value, schema, root in [
        (header, of_header, lines),
        *((record, of_record, lines) for record in records),
        (run, format_of("run"), format_of("run")),
    ]:
        assert list(undocumented(value, schema, root)) == []


def undocumented(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], path: str = "$") -> Iterator[str]:
    """Yield the fields of a value that its schema does not document."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        found = [list(undocumented(value, one, root, path)) for one in schema["anyOf"]]
        yield from min(found, key=len)
    elif isinstance(value, dict) and schema.get("type") == "null":
        yield path
    elif isinstance(value, dict) and "properties" in schema:
        for name, one in value.items():
            if name in schema["properties"]:
                yield from undocumented(one, schema["properties"][name], root, f"{path}.{name}")
            else:
                yield f"{path}.{name}"
    elif isinstance(value, list):
        for one in value:
            yield from undocumented(one, schema.get("items", {}), root, f"{path}[]")


def test_every_figure_of_run_json_is_documented_with_its_formula() -> None:
    page = text("metrics")
    by_hand = re.sub(r"<!-- from the code.*?<!-- /from the code -->", "", page, flags=re.DOTALL)
    formulas = set(re.findall(r"`([a-z_0-9]+)`", " ".join(re.findall(r"^\| (`.*?) \|", by_hand, flags=re.MULTILINE))))
    stored = {
        re.sub(r"_(ci_low|ci_high|count|mean|p50|p90|p95|p99|max)$", "", name)
        for name in summarize(run_of()).total.to_dict(every=True)
    }
    names = set(re.findall(r"^\| `([a-z_0-9]+)` \|", figures(), flags=re.MULTILINE))

    assert names | formulas == stored
    assert stored - formulas <= set(COUNTS)


def test_the_page_on_providers_names_each_engine_s_options() -> None:
    rows = re.findall(r"^\| ((?:`[\w-]+`(?:, )?)+) \| `(\w+)` \|", text("providers"), flags=re.MULTILINE)
    documented = {(engine, option) for engines, option in rows for engine in re.findall(r"[\w-]+", engines)}
    factories = {name: registry.find(name) for name in registry.names() if name not in PRESET_NAMES}

    assert documented == {(name, option) for name, found in factories.items() for option in getattr(found, "options")}  # noqa: B009


def test_the_page_on_formats_names_each_field_of_a_recording() -> None:
    section = text("formats").partition("\n## Recordings\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, flags=re.MULTILINE)

    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(RecordingFile.__struct_fields__)


def test_page_on_judging_names_all_parts_of_a_verdict() -> None:
    page = text("judging") + text("rules")
    named = set(re.findall(r"`([a-z_]+)`", page))

    for words in (FailureType, Note, SyntaxReason, SchemaReason, ExtraFieldReason):
        assert {word.value for word in words} <= named


@pytest.mark.parametrize("name", formats.PUBLISHED)
def test_published_schema_agrees_with_the_types(name: str) -> None:
    if name == "evaluation":
        pytest.importorskip("pydantic", reason="needs the extra pydantic")
    assert (formats.FOLDER / f"{name}.schema.json").read_text("utf-8") == formats.text_of(name), (
        "python -m tools.formats rewrites it"
    )


def test_no_published_schema_is_written_by_hand() -> None:
    assert {path.name for path in formats.FOLDER.glob("*.json")} == {
        f"{name}.schema.json" for name in formats.PUBLISHED
    }
    assert "read_text" not in inspect.getsource(formats)


def test_reference_has_every_public_name() -> None:
    shown = re.findall(r"^::: pytest_jsbench\.(\w+)$", text("api"), flags=re.MULTILINE)

    assert sorted(shown) == sorted({*pytest_jsbench.__all__, *pytest_jsbench._HOMES["library.pydantic_models"]})


def test_reference_of_extensions_has_every_protocol_and_name_for_authors() -> None:
    shown = set(re.findall(r"^::: pytest_jsbench\.([\w.]+)$", text("api-extensions"), flags=re.MULTILINE))
    for_authors = {name for names in pytest_jsbench._HOMES.values() for name in names} - {"__version__"}
    protocols = {
        f"{module.__name__.removeprefix('pytest_jsbench.')}.{name}"
        for module in (base, datasets)
        for name, value in vars(module).items()
        if getattr(value, "_is_protocol", False) and value.__module__ == module.__name__
    }

    assert {"engines.base.GrammarMatcher", "datasets.base.CaseSource"} <= protocols
    named = {f"engines.base.{name}" for name in for_authors}
    assert protocols - named | {"engines.base.EngineFactory"} <= shown
    assert for_authors - set(re.findall(r"^::: pytest_jsbench\.(\w+)$", text("api"), flags=re.MULTILINE)) <= shown


def test_changelog_has_the_form_of_keep_a_changelog() -> None:
    headings = re.findall(r"^(#{2,}) (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)

    versions = [title for level, title in headings if level == "##"]
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", title) for title in versions[1:])
    kinds = {title for level, title in headings if level == "###"}
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
