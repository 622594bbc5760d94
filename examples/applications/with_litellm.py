"""Read parcels with litellm."""

from __future__ import annotations

import litellm
from parcels import MODEL, Parcel, make_prompt


def read(text: str) -> Parcel:
    """Read a parcel through Chat Completions."""
    answer = litellm.completion(
        model=f"openai/{MODEL}",
        messages=[{"role": "user", "content": make_prompt(text)}],
        response_format=Parcel,
        temperature=0,
        max_completion_tokens=64,
    )
    return Parcel.model_validate_json(answer.choices[0].message.content)
