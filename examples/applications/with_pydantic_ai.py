"""Read parcels with a Pydantic AI agent."""

from __future__ import annotations

from parcels import MODEL, Parcel, make_prompt
from pydantic_ai import Agent, NativeOutput


def _agent() -> Agent[None, Parcel]:
    return Agent(
        f"openai:{MODEL}", output_type=NativeOutput(Parcel), model_settings={"temperature": 0, "max_tokens": 64}
    )


def read(text: str) -> Parcel:
    """Read a parcel."""
    parcel: Parcel = _agent().run_sync(make_prompt(text)).output
    return parcel


async def read_streamed(text: str) -> Parcel:
    """Read a parcel from a streamed answer."""
    async with _agent().run_stream(make_prompt(text)) as result:
        parcel: Parcel = await result.get_output()
        return parcel
