"""The type and the prompt with which the application extracts an `Invoice` from a text."""

from __future__ import annotations

from datetime import date

from pydantic import BaseModel, Field


class Invoice(BaseModel):
    """What the rest of the application relies on."""

    number: str = Field(description="The invoice number", pattern="^[A-Z]{2}-[0-9]{4}$")
    issued: date = Field(description="The date of the invoice")
    currency: str = Field(pattern="^(EUR|USD)$")
    total: float = Field(description="The total amount", ge=0)


#: The prompt; `{text}` is replaced by the invoice's text.
PROMPT = """Extract the invoice as JSON with number, issued, currency and total.

{text}
"""
