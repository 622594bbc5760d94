"""Reads invoices: a text goes to a language model, and an `Invoice` comes back."""

from __future__ import annotations

from datetime import date

from pydantic import BaseModel, Field


class Invoice(BaseModel):
    """What the rest of the application relies on."""

    number: str = Field(description="The invoice number", pattern="^[A-Z]{2}-[0-9]{4}$")
    issued: date = Field(description="The date of the invoice")
    currency: str = Field(pattern="^(EUR|USD)$")
    total: float = Field(description="The total amount", ge=0)


#: what the model is asked
PROMPT = """Extract the invoice as JSON with number, issued, currency and total.

{text}
"""
