"""Answer a question with a Pydantic AI agent, which calls the functions itself."""

from __future__ import annotations

from city import FUNCTIONS, MODEL, QUESTION
from pydantic_ai import Agent


def _agent(api: str) -> Agent[None, str]:
    return Agent(f"{api}:{MODEL}", tools=list(FUNCTIONS.values()))


def answer(api: str) -> str:
    """Answer through `openai-chat` or `openai-responses`."""
    output: str = _agent(api).run_sync(QUESTION).output
    return output


async def answer_streamed(api: str) -> str:
    """Answer from streamed answers of the model."""
    async with _agent(api).run_stream(QUESTION) as result:
        output: str = await result.get_output()
        return output
