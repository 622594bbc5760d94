from __future__ import annotations

from tests.engines.conftest import provider as provider
