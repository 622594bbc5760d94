"""What the applications read: a text goes to a language model, and a `Parcel` comes back."""

from __future__ import annotations

from pydantic import BaseModel, Field, ValidationInfo, field_validator

MODEL = "gpt-4.1-mini"


class Parcel(BaseModel):
    """A parcel that is on its way."""

    number: str = Field(description="The tracking number", pattern="^[A-Z]{2}[0-9]{6}$")
    weight: float = Field(description="The weight in kg", ge=0)

    @field_validator("number")
    @classmethod
    def stands_in_the_text(cls, number: str, info: ValidationInfo) -> str:
        """Refuse a number that the model has made up, where the text is known."""
        if info.context and number not in info.context["text"]:
            message = f"{number} does not stand in the text"
            raise ValueError(message)
        return number


def asked(text: str) -> str:
    """Return the prompt."""
    return f"Extract the parcel as JSON with number and weight.\n\n{text}\n"
