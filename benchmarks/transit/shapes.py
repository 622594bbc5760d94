"""Twenty Pydantic types, each with one thing that clients may change on the way to a server."""

from __future__ import annotations

import datetime
import decimal
import enum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field


class Plain(BaseModel):
    name: str
    total: float


class Address(BaseModel):
    """Where someone lives."""

    street: str


class Described(BaseModel):
    home: Address = Field(description="The address of the customer.")
    name: str = Field(description="The full name.")


class Default(BaseModel):
    name: str
    count: int = 3


class Optional(BaseModel):
    name: str
    note: str | None = None


class Pattern(BaseModel):
    code: str = Field(pattern="^[A-Z]{2}-[0-9]{4}$")


class Lengths(BaseModel):
    code: str = Field(min_length=2, max_length=8)


class Bounds(BaseModel):
    share: float = Field(ge=0, lt=1)


class Multiple(BaseModel):
    count: int = Field(multiple_of=5)


class Dates(BaseModel):
    day: datetime.date


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Enum(BaseModel):
    color: Color


class Const(BaseModel):
    version: Literal[1]


class Scalars(BaseModel):
    value: str | int


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Tagged(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Counts(BaseModel):
    counts: dict[str, int]


class Free(BaseModel):
    more: dict[str, Any]


class Bounded(BaseModel):
    tags: list[str] = Field(min_length=1, max_length=3)


class Unique(BaseModel):
    tags: set[str]


class Pair(BaseModel):
    point: tuple[float, str]


class Tree(BaseModel):
    value: int
    children: list[Tree]


class Price(BaseModel):
    price: decimal.Decimal


#: Each type by its title in the table.
SHAPES: dict[str, type[BaseModel]] = {
    "`str`, `float`": Plain,
    "descriptions": Described,
    "`int = 3`": Default,
    "`str | None = None`": Optional,
    "`pattern`": Pattern,
    "`min_length`, `max_length`": Lengths,
    "`ge`, `lt`": Bounds,
    "`multiple_of`": Multiple,
    "`date`": Dates,
    "`Enum`": Enum,
    "`Literal[1]`": Const,
    "`str | int`": Scalars,
    "tagged union": Tagged,
    "`dict[str, int]`": Counts,
    "`dict[str, Any]`": Free,
    "`list`, 1 to 3 items": Bounded,
    "`set[str]`": Unique,
    "`tuple[float, str]`": Pair,
    "type that contains itself": Tree,
    "`Decimal`": Price,
}
