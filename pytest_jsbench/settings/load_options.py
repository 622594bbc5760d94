"""Define the options of the load that a run puts on its servers, and of the service level of the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_jsbench.core.arguments import number
from pytest_jsbench.settings import parsers
from pytest_jsbench.settings.option import Bearing, Option, OptionGroup

if TYPE_CHECKING:
    from pytest_jsbench.core.arrivals import ArrivalRate
    from pytest_jsbench.core.service_level import ServiceLevel

#: Maximum share of plain calls, so that the cases stay a part of the load.
MOST_PLAIN = 0.9


def _share(value: object) -> float:
    """Check a share of plain calls."""
    expected = f"a number above 0 and at most {MOST_PLAIN}"
    share: float = number(expected, above=0)(value)
    if share > MOST_PLAIN:
        raise ValueError(expected)
    return share


class LoadOptions(OptionGroup, heading="Load"):
    """The load that a run puts on its servers, and the times within which an answer is useful."""

    rate: Option[ArrivalRate | None] = Option(
        "Begin the calls of the dataset's cases at this rate to each engine and address, over all processes, whatever "
        "the answers do (an open loop): with equal gaps, or with the random gaps of a Poisson process. The summary "
        "shows how late calls began. --jsbench-concurrency (default with a rate: 256) limits the calls in flight.",
        "N/s[:poisson]",
        parse=parsers.arrival_rate,
        affects=Bearing.TIMES,
        recorded=("rate",),
    )
    plain_share: Option[float | None] = Option(
        "Send this share of all requests without a schema, next to those of the cases: each asks the model to repeat a "
        "line. They are no cases; the summary shows those that fail or whose answer is empty or corrupted.",
        "SHARE",
        check=_share,
        affects=Bearing.TIMES,
        recorded=("plain_share",),
    )
    slo: Option[ServiceLevel | None] = Option(
        "Service level: the longest ttft and tgt in seconds and tpot in milliseconds of an answer in time. The summary "
        "shows the share of answers in time, and the goodput: passed answers in time per second. With --jsbench-rate, "
        "ttft and tgt count from the scheduled start of the call.",
        "'ttft<=S,tgt<=S'",
        parse=parsers.service_level,
    )
