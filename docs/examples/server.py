"""An MCP server; `tools/` beside it holds its tools, one file each, as it lists them."""

from __future__ import annotations

from typing import Literal

from mcp.server import MCPServer
from pydantic import BaseModel

mcp = MCPServer("home")


class Weather(BaseModel):
    """What the weather is like."""

    celsius: float
    sky: Literal["clear", "cloudy", "rain"]


@mcp.tool()
def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> Weather:
    """Current weather of a city."""
    return Weather(celsius=20, sky="clear")


@mcp.tool()
def set_light(room: str, on: bool, brightness: int | None = None) -> str:
    """Switch a room's light."""
    return "done"


if __name__ == "__main__":
    mcp.run()
