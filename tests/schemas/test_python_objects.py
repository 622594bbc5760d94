"""Test that valid objects of Python types are valid for the JSON Schema of their type, in both forms."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import ipaddress
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    AnyUrl,
    Base64Bytes,
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    Json,
    PlainSerializer,
    RootModel,
    Secret,
    SecretBytes,
    SecretStr,
    TypeAdapter,
    computed_field,
    field_serializer,
    model_serializer,
)
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from pytest_jsbench import assert_conforms, judge
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.schemas.modes import MODES
from pytest_jsbench.schemas.python_types import schema_of, to_json

T = TypeVar("T")


class Computed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    width: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> int:
        return self.width**2


class TwoNames(BaseModel):
    total: int = Field(validation_alias="in", serialization_alias="out")


class Choices(BaseModel):
    total: int = Field(validation_alias=AliasChoices("sum", "amount"))


class PathName(BaseModel):
    first: int = Field(validation_alias=AliasPath("values", 0))


class PathOrName(BaseModel):
    first: int = Field(validation_alias=AliasChoices(AliasPath("values", 0), "one"))


class JsonText(BaseModel):
    numbers: Json[list[int]]


class Excluded(BaseModel):
    model_config = ConfigDict(extra="forbid")
    shown: int
    hidden: int = Field(exclude=True)


class Secrets(BaseModel):
    key: SecretStr = Field(min_length=12, max_length=14)
    raw: SecretBytes = Field(max_length=5)
    day: Secret[dt.date]


class Serializers(BaseModel):
    total: int
    price: Annotated[int, PlainSerializer(str, return_type=str)]

    @field_serializer("total")
    def write_total(self, value: int):  # type: ignore[no-untyped-def]
        return f"{value} EUR"


class WholeSerializer(BaseModel):
    total: int

    @model_serializer
    def write(self) -> str:
        return str(self.total)


class ByAlias(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, serialize_by_alias=False, populate_by_name=True)
    unit_price: int


class Formats(BaseModel):
    model_config = ConfigDict(ser_json_timedelta="float", ser_json_bytes="base64", val_json_bytes="base64")
    took: dt.timedelta
    body: bytes


class Color(enum.Enum):
    RED = "red"


class Naive(BaseModel):
    at: dt.datetime
    time: dt.time


class Rank(enum.IntEnum):
    FIRST = 1


class Scalars(BaseModel):
    amount: Decimal
    color: Color
    rank: Rank
    at: dt.datetime
    day: dt.date
    took: dt.timedelta
    id: uuid.UUID
    url: AnyUrl
    path: Path
    address: ipaddress.IPv4Address
    body: bytes
    encoded: Base64Bytes
    size: ByteSize
    names: frozenset[str]
    pair: tuple[int, str]
    maybe: Decimal | None = None


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = Field(alias="livesLeft")


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    nested: list[TwoNames]
    by_name: dict[str, Computed]


class Node(BaseModel):
    name: str = Field(validation_alias="label")
    children: list[Node] = []


class Page(BaseModel, Generic[T]):
    items: list[T]


class Days(RootModel[list[dt.date]]):
    pass


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


@dataclasses.dataclass
class Plain:
    at: dt.datetime
    amount: Decimal


@pydantic_dataclass
class Checked:
    total: Annotated[int, Field(validation_alias="in")]


class Typed(TypedDict):
    day: dt.date


DAY = dt.date(2026, 3, 14)
AT = dt.datetime(2026, 3, 14, 12, 30, tzinfo=dt.UTC)
OBJECTS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "computed": lambda: (Computed, Computed(width=3)),
    "two-names": lambda: (TwoNames, TwoNames.model_validate({"in": 3})),
    "choices": lambda: (Choices, Choices.model_validate({"amount": 3})),
    "path": lambda: (PathName, PathName.model_validate({"values": [3]})),
    "path-or-name": lambda: (PathOrName, PathOrName.model_validate({"one": 3})),
    "json": lambda: (JsonText, JsonText(numbers="[1, 2]")),  # type: ignore[arg-type]
    "excluded": lambda: (Excluded, Excluded(shown=1, hidden=2)),
    "secrets": lambda: (Secrets, Secrets(key=SecretStr("k" * 13), raw=SecretBytes(b"abc"), day=Secret(DAY))),
    "serializers": lambda: (Serializers, Serializers(total=3, price=4)),
    "whole-serializer": lambda: (WholeSerializer, WholeSerializer(total=3)),
    "by-alias": lambda: (ByAlias, ByAlias(unit_price=3)),
    "formats": lambda: (Formats, Formats(took=dt.timedelta(seconds=3), body=b"YWI=")),
    "owner": lambda: (
        Owner,
        Owner(pet=Cat(livesLeft=9), nested=[TwoNames.model_validate({"in": 3})], by_name={"a": Computed(width=2)}),
    ),
    "recursive": lambda: (Node, Node.model_validate({"label": "a", "children": [{"label": "b"}]})),
    "generic": lambda: (Page[TwoNames], Page[TwoNames](items=[TwoNames.model_validate({"in": 3})])),
    "root": lambda: (Days, Days([DAY])),
    "extra": lambda: (Extra, Extra.model_validate({"name": "a", "more": 1})),
    "dataclass": lambda: (Plain, Plain(AT, Decimal("1.50"))),
    "pydantic-dataclass": lambda: (Checked, TypeAdapter(Checked).validate_python({"in": 3})),
    "typed-dict": lambda: (Typed, {"day": DAY}),
    "list-of-models": lambda: (list[TwoNames], [TwoNames.model_validate({"in": 3})]),
    "union": lambda: (Annotated[Cat | Dog, Field(discriminator="kind")], Cat(livesLeft=9)),
    "naive": lambda: (Naive, Naive(at=AT.replace(tzinfo=None), time=AT.time())),
    "scalars": lambda: (
        Scalars,
        Scalars(
            amount=Decimal("1.50"),
            color=Color.RED,
            rank=Rank.FIRST,
            at=AT,
            day=DAY,
            took=dt.timedelta(hours=1),
            id=uuid.UUID(int=1),
            url=AnyUrl("https://example.org/"),
            path=Path("a/b"),
            address=ipaddress.IPv4Address("127.0.0.1"),
            body=b"abc",
            encoded=b"YWJj",
            size=ByteSize(1024),
            names=frozenset({"a"}),
            pair=(1, "a"),
        ),
    ),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_assert_conforms_passes_a_valid_object(name: str) -> None:
    described, value = OBJECTS[name]()
    assert_conforms(described, value)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OBJECTS)
def test_to_json_writes_what_the_schema_of_the_mode_describes(name: str, mode: Any) -> None:
    described, value = OBJECTS[name]()
    if name == "naive" and mode == "validation":
        pytest.skip("the format of the schema requires a time zone, which the object does not have")
    verdict = judge(schema_of(described, mode), to_json(value, described, mode))
    if name == "extra":  # allowed by the type, and reported as extra by our policy
        assert verdict.valid
    else:
        assert verdict.passed, verdict


@pytest.mark.parametrize("name", [name for name in OBJECTS if name not in {"path", "extra", "naive"}])
def test_expected_object_matches_what_its_type_reads(name: str) -> None:
    described, value = OBJECTS[name]()
    text = to_json(value, described, "validation")
    assert TypeAdapter(described).validate_json(text) == value
    assert_conforms(described, text, expected=value)


@pytest.mark.parametrize(
    ("described", "value"),
    [
        (TwoNames, TwoNames.model_construct(total=None)),
        (list[Cat], [Dog()]),
        (Secrets, Secrets.model_construct(key=SecretStr("short"), raw=SecretBytes(b""), day=Secret(DAY))),
    ],
)
def test_assert_conforms_fails_an_invalid_object(described: Any, value: Any) -> None:
    with pytest.raises(AssertionError):
        assert_conforms(described, value)


def test_serialization_schema_contains_no_secret() -> None:
    described, value = OBJECTS["secrets"]()
    written = json.loads(to_json(value, described, "serialization"))
    assert written == {"key": "*" * 13, "raw": "***", "day": "**********"}


def test_mode_chooses_the_schema_of_a_type() -> None:
    judged = assert_conforms(TwoNames, '{"out": 3}', mode="serialization")
    assert judged == {"out": 3}
    assert judge(TwoNames, '{"in": 3}', mode="validation").passed
    assert not judge(TwoNames, '{"in": 3}', mode="serialization").passed
    with pytest.raises(JSBenchError, match="'validation' or 'serialization'"):
        judge(TwoNames, "{}", mode="both")  # type: ignore[arg-type]
