from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.contracts import Contract
from pytest_jsbench.errors import ContractError, MissingRequirement

if TYPE_CHECKING:
    from typing import TypedDict
else:
    try:
        # Pydantic takes typing's own from Python 3.12 on
        from typing_extensions import TypedDict
    except ImportError:
        from typing import TypedDict

needs_pydantic = pytest.mark.skipif(importlib.util.find_spec("pydantic") is None, reason="needs the package pydantic")


@dataclass
class Point:
    x: int
    y: int = 0


class Line(TypedDict):
    length: float


class NoSchema:
    pass


@dataclass
class Holder:
    it: NoSchema


def contract(source: object, folder: Path = Path()) -> Contract:
    return Contract.of(source, folder=folder)


@pytest.mark.parametrize("schema", [{"type": "object"}, True, {}])
def test_a_schema_stands_for_itself(schema: Any) -> None:
    found = contract(schema)

    assert found.schema == schema
    assert found.parse([1]) == [1]


def test_a_path_starts_at_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"type": "string"}')

    assert contract("a.json", tmp_path).schema == {"type": "string"}
    assert contract(tmp_path / "a.json").schema == {"type": "string"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read the schema *a.json: No such file or directory; a relative path starts at the folder of"),
        ("{", "the schema *a.json is not JSON: "),
        ("[1]", "the schema *a.json is a JSON list; expected an object, true or false"),
    ],
)
def test_a_file_that_holds_no_schema_is_named(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "a.json").write_text(content)
    before, _, after = message.partition("*")

    with pytest.raises(ContractError) as refused:
        contract("a.json", tmp_path)

    assert str(refused.value).startswith(f"{before}{tmp_path}")
    assert after in str(refused.value)


@pytest.mark.parametrize("source", [None, 3, int, object(), [{}]])
def test_what_is_no_schema_is_refused_by_type(source: object) -> None:
    with pytest.raises(ContractError, match=r"^no schema: .* expected a JSON Schema, a Pydantic model, a dataclass"):
        contract(source)


@needs_pydantic
@pytest.mark.parametrize(
    ("source", "instance", "parsed"),
    [
        (Point, {"x": 1}, Point(x=1)),
        (Line, {"length": 1.5}, {"length": 1.5}),
        (list[Point], [{"x": 1, "y": 2}], [Point(x=1, y=2)]),
    ],
)
def test_a_type_gives_its_schema_and_takes_instances(source: Any, instance: object, parsed: object) -> None:
    found = contract(source)

    assert isinstance(found.schema, dict)
    assert found.schema["type"] in {"object", "array"}
    assert found.parse(instance) == parsed


@needs_pydantic
def test_a_strict_pydantic_model_is_read_as_json() -> None:
    import pydantic

    class Invoice(pydantic.BaseModel, strict=True):
        due: date
        total: float = pydantic.Field(alias="sum", ge=0)

        @pydantic.field_validator("total")
        @classmethod
        def is_whole(cls, total: float) -> float:
            if total != int(total):
                raise ValueError("only whole sums")
            return total

    found = contract(Invoice)

    assert isinstance(found.schema, dict)
    assert found.schema["required"] == ["due", "sum"]
    assert found.parse({"due": "2026-11-21", "sum": 2}) == Invoice(due=date(2026, 11, 21), sum=2)
    with pytest.raises(ContractError) as refused:
        found.parse({"due": "2026-11-21", "sum": 2.5})
    assert str(refused.value) == (
        "conforms to the JSON Schema of Invoice, and Invoice refuses it: sum: Value error, only whole sums"
    )


@needs_pydantic
def test_a_type_without_a_schema_says_why() -> None:
    with pytest.raises(ContractError, match=r"^Holder has no JSON Schema: PydanticSchemaGenerationError: "):
        contract(Holder)


def test_without_pydantic_a_type_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(
        MissingRequirement, match=r"Point needs the package pydantic: pip install 'pytest-jsbench\[pyda"
    ):
        contract(Point)
