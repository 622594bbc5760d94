from __future__ import annotations

from pytest_jsbench.plugin.options.declared import OPTIONS
from pytest_jsbench.schemas.dialects import NAMES


def test_every_dialect_can_be_the_default() -> None:
    (option,) = (option for option in OPTIONS if option.name == "default-dialect")
    assert option.choices == tuple(NAMES)
