"""The old name of `pytest_jsbench.engines.batch_api`, kept for extensions."""

from pytest_jsbench.engines.batch_api import Batches, BatchFactory, BatchLimits, BatchState

__all__ = ["BatchFactory", "BatchLimits", "BatchState", "Batches"]
