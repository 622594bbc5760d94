"""Parcels, read with litellm."""

from __future__ import annotations

import litellm
from parcels import MODEL, Parcel, asked


def read(text: str) -> Parcel:
    """By Chat Completions."""
    answer = litellm.completion(
        model=f"openai/{MODEL}",
        messages=[{"role": "user", "content": asked(text)}],
        response_format=Parcel,
        temperature=0,
        max_completion_tokens=64,
    )
    return Parcel.model_validate_json(answer.choices[0].message.content)
