"""The type and the prompt with which the applications extract a `Parcel` from a text."""

from __future__ import annotations

from pydantic import BaseModel, Field, ValidationInfo, field_validator

MODEL = "gpt-4.1-mini"


class Parcel(BaseModel):
    """A parcel that is on its way."""

    number: str = Field(description="The tracking number", pattern="^[A-Z]{2}[0-9]{6}$")
    weight: float = Field(description="The weight in kg", ge=0)

    @field_validator("number")
    @classmethod
    def check_number_is_in_text(cls, number: str, info: ValidationInfo) -> str:
        """Reject an invented number if the text is passed as context."""
        if info.context and number not in info.context["text"]:
            message = f"{number} does not stand in the text"
            raise ValueError(message)
        return number


def make_prompt(text: str) -> str:
    """Return the prompt that extracts a parcel from the text."""
    return f"Extract the parcel as JSON with number and weight.\n\n{text}\n"
