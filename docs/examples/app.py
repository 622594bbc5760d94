"""A FastAPI application; `api.json` beside it is what it says of itself."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from fastapi import FastAPI
from pydantic import BaseModel, Field

app = FastAPI(title="Table service", version="1.0")


class Reservation(BaseModel):
    """A table for some people at a time."""

    name: str
    people: int = Field(ge=1, le=12)
    at: datetime
    seating: Literal["inside", "terrace"] = "inside"


class Confirmation(BaseModel):
    """What the guest is told."""

    code: str = Field(pattern="^[A-Z]{3}[0-9]{3}$")
    reservation: Reservation


@app.post("/reservations", operation_id="reserve")
def reserve(reservation: Reservation) -> Confirmation:
    """Reserve a table."""
    return Confirmation(code="ABC123", reservation=reservation)


@app.get("/reservations", operation_id="list_reservations")
def list_reservations(day: str) -> list[Reservation]:
    """All reservations of a day."""
    return []
