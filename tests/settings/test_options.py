from __future__ import annotations

from pytest_jsbench.schemas.dialects import NAMES
from pytest_jsbench.settings.options import BY_NAME


def test_every_dialect_can_be_the_default() -> None:
    assert BY_NAME["default_dialect"].choices == tuple(NAMES)
