"""Models as an application has them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal

from pydantic import BaseModel, Field
from typing_extensions import TypedDict


class Address(BaseModel):
    """Where a parcel goes."""

    street: str
    city: str
    country: str = Field(pattern="^[A-Z]{2}$")


class Order(BaseModel):
    """An order of one product."""

    sku: str
    quantity: int = Field(gt=0)
    ship_to: Address
    wanted_by: date | None = None


@dataclass
class Rating:
    """What a customer thinks."""

    stars: Literal[1, 2, 3, 4, 5]
    comment: str


class Search(TypedDict):
    """A search in the catalogue."""

    text: str
    in_stock: bool
