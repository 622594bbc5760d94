"""Functions that an application offers to a model as tools."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field


def book_table(people: Annotated[int, Field(ge=1, le=12)], time: str) -> str:
    """Book a table."""
    return "R17"


def cancel(code: Annotated[str, Field(description="Code of the booking")]) -> None:
    """Cancel a booking."""
