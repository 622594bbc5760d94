from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import open_dataset
from tests.support.dataset_reading import keys, problem, schema

SHOP = """
from __future__ import annotations
import dataclasses, enum, types
from typing import Annotated
from pydantic import BaseModel, Field
from typing_extensions import TypedDict
from collections import OrderedDict as Elsewhere

class Line(BaseModel):
    sku: str = Field(pattern="^[A-Z]+$")
    next: Line | None = None

@dataclasses.dataclass
class Size:
    width: int

class Filter(TypedDict, total=False):
    text: str

class _Hidden(BaseModel):
    x: int

class Plain:
    pass

LINES = list[Line]
SCHEMAS = {"line": Line, "any": True, "a b": {"type": "string"}}
ONE = {"type": "object", "properties": {"n": {"type": "integer"}}}
NESTED = {"properties": {"n": True}}
FROZEN = types.MappingProxyType({"anyOf": [{"type": "string"}], "description": "d"})
MODELS = [Line, Size, {"const": 1}]
EMPTY = {}
MIXED = {"line": Line, "version": 1}
TITLED = {"title": "anything", "version": 1}
NUMBER = 3
BAD = {"n": {"const": object()}}
DEEP = {"n": {"const": float("nan")}}
"""

_names = itertools.count()


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("pydantic", reason="needs the extra pydantic")
    name = f"shop_models_{next(_names)}"
    (tmp_path / f"{name}.py").write_text(SHOP)
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.parametrize(
    ("name", "properties"),
    [("Line", {"sku", "next"}), ("Size", {"width"}), ("Filter", {"text"}), ("ONE", {"n"}), ("NESTED", {"n"})],
)
def test_a_model_or_a_schema_is_one_case_of_its_module(shop: str, name: str, properties: set[str]) -> None:
    source = f"{shop}:{name}"

    assert keys(source) == [f"{shop}::{name}"]
    whole = schema(source)
    whole = whole["$defs"]["Line"] if "$defs" in whole else whole
    assert set(whole["properties"]) == properties


def test_schema_of_a_model_is_pydantics_own(shop: str) -> None:
    import importlib

    model = importlib.import_module(shop).Line

    assert schema(f"{shop}:Line") == model.model_json_schema()
    assert schema(f"{shop}:LINES")["type"] == "array"


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("*", ["Line", "Size", "Filter"]),
        ("SCHEMAS", ["line", "any", "a_b-c8687a08"]),
        ("MODELS", ["Line", "Size", "MODELS-2"]),
        ("FROZEN", ["FROZEN"]),
        ("TITLED", ["TITLED"]),
    ],
)
def test_a_mapping_a_list_or_a_module_is_a_case_per_part(shop: str, name: str, cases: list[str]) -> None:
    assert keys(f"{shop}:{name}") == [f"{shop}::{case}" for case in cases]
    assert all(schema(f"{shop}:{name}", case) is not None for case in cases)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Lien", "did you mean 'Line'?"),
        ("EMPTY", "is empty: expected a Pydantic model"),
        ("MIXED", "version is an int; expected a Pydantic model, a dataclass, a TypedDict, a JSON Schema, or a"),
        ("NUMBER", "NUMBER is an int; expected a Pydantic model, a dataclass, a TypedDict, a JSON Schema, or a"),
    ],
)
def test_object_without_schemas_is_one_line(shop: str, name: str, message: str) -> None:
    with pytest.raises(DatasetError, match=f"^dataset '{shop}:{re.escape(name)}'.*{re.escape(message)}"):
        keys(f"{shop}:{name}")


@pytest.mark.parametrize(
    ("name", "case", "message"),
    [
        ("Plain", "Plain", "Plain has no JSON Schema: PydanticSchemaGenerationError: "),
        ("BAD", "n", "cannot be written as JSON: found object, expected only JSON values"),
        ("DEEP", "n", "NaN is not JSON"),
    ],
)
def test_file_without_schema_is_a_broken_case(shop: str, name: str, case: str, message: str) -> None:
    assert problem(f"{shop}:{name}", case).startswith(f"{shop}:{name}: ")
    assert message in problem(f"{shop}:{name}", case)


def test_a_module_that_ends_the_program_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ends_the_program.py").write_text("import sys; sys.exit(3)")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(DatasetError, match="cannot import ends_the_program: SystemExit: 3"):
        keys("ends_the_program:Model")


def test_without_pydantic_schemas_are_read_and_models_are_one_line(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    assert keys(f"{shop}:ONE") == [f"{shop}::ONE"]
    with pytest.raises(DatasetError, match=r"needs the package pydantic: pip install 'pytest-jsbench\[pydantic\]'$"):
        keys(f"{shop}:Line")


def test_module_s_models_are_those_that_it_names_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pydantic", reason="needs the extra pydantic")
    name = f"generic_models_{next(_names)}"
    (tmp_path / f"{name}.py").write_text("""
from typing import Generic, TypeVar
from pydantic import BaseModel, RootModel

T = TypeVar("T")

class User(BaseModel):
    name: str

class Page(BaseModel, Generic[T]):
    items: list[T]

class Users(RootModel[list[User]]):
    pass

class Team(BaseModel):
    page: Page[User]

UserPage = Page[User]
Names = RootModel[list[str]]
Alias = User
""")
    monkeypatch.syspath_prepend(tmp_path)

    assert keys(f"{name}:*") == [f"{name}::{model}" for model in ("User", "Page", "Users", "Team", "UserPage", "Names")]


TWO_SIDED = """
from pydantic import BaseModel, Field, computed_field

class Order(BaseModel):
    number: str = Field(validation_alias="in", serialization_alias="out")

    @computed_field
    @property
    def total(self) -> int:
        return 1

PLAIN = {"type": "object", "properties": {"n": True}}
ORDERS = {"order": Order, "plain": PLAIN}
"""


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("pydantic", reason="needs the extra pydantic")
    name = f"order_models_{next(_names)}"
    (tmp_path / f"{name}.py").write_text(TWO_SIDED)
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.parametrize(
    ("mode", "properties"),
    [("", {"in"}), ("@validation", {"in"}), ("@serialization", {"out", "total"})],
)
@pytest.mark.parametrize(("name", "case"), [("Order", "Order"), ("*", "Order"), ("ORDERS", "order")])
def test_source_of_types_has_the_schema_of_its_mode(
    orders: str, name: str, case: str, mode: str, properties: set[str]
) -> None:
    found = schema(f"{orders}:{name}{mode}", case)

    assert set(found["properties"]) == properties


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (":Order@serialisation", "unknown mode 'serialisation'; expected 'validation' or 'serialization' after the @"),
        (":Order@", "unknown mode ''; expected 'validation' or 'serialization' after the @"),
        (":PLAIN@serialization", "has no Python types; remove @serialization, which is for types"),
    ],
)
def test_mode_that_is_unknown_or_has_no_types_is_an_error(orders: str, source: str, message: str) -> None:
    with pytest.raises(DatasetError, match=re.escape(message)):
        keys(orders + source)


def test_both_modes_of_a_type_are_one_suite(orders: str) -> None:
    source = f"{orders}:Order"
    listing = open_dataset(Selection.from_sources([source, f"{source}@serialization"]))

    properties = []
    for key in listing.keys():
        case = listing.case(key)
        assert isinstance(case, Case)
        assert isinstance(case.schema, dict)
        properties.append(set(case.schema["properties"]))
    assert properties == [{"in"}, {"out", "total"}]
