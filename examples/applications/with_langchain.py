"""Read parcels with LangChain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from langchain_openai import ChatOpenAI
from parcels import MODEL, Parcel, make_prompt


def read_all(texts: Sequence[str]) -> list[Parcel]:
    """Read several parcels concurrently."""
    model = ChatOpenAI(model=MODEL, temperature=0, max_completion_tokens=64).with_structured_output(Parcel)
    return cast("list[Parcel]", model.batch([make_prompt(text) for text in texts]))
