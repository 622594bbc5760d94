"""
The child process that makes what report.html and every_eval_ever hold of each record, while the run goes on.

It reads requests and writes replies as lines of JSON. It ends when its input does (the parent closed it, or died), and
leaves nothing of a file that is not finished.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pytest_jsbench.core.child_service import Service
from pytest_jsbench.lab.interchange.every_eval_ever import Samples
from pytest_jsbench.reports.html.case_list import CaseList
from pytest_jsbench.reports.run_files import SHARED_FORMAT
from pytest_jsbench.runs.outcomes import AttemptOutcome, Place, open_lines
from pytest_jsbench.runs.records import Record, RunMetadata
from pytest_jsbench.runs.variants import each

if TYPE_CHECKING:
    from collections.abc import Iterable

#: seconds for one request
_LONGEST = 60.0


def main(config: dict[str, Any]) -> None:
    """Serve until the input ends."""
    service = Service(config)
    settings = config["settings"]
    with LiveRows(Path(settings["folder"]), RunMetadata.from_dict(settings["run"])) as rows:
        service.ready()
        for request in service.requests():
            service.answer(_LONGEST, partial(rows.serve, request))


class LiveRows:
    """The rows of the records that it was told of: `main` makes it once, and asks it request by request."""

    def __init__(self, folder: Path, metadata: RunMetadata) -> None:
        self._cases = CaseList(ranked=True)
        self._samples = {one.variant: Samples(folder / SHARED_FORMAT, one) for one in each(metadata)}
        self._resources = ExitStack()
        self._lines = self._resources.enter_context(open_lines())
        for samples in self._samples.values():
            self._resources.callback(samples.discard)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def serve(self, request: dict[str, Any]) -> dict[str, Any]:
        """What is replied to a request: to add the records at some places, or to finish."""
        if "places" in request:
            self._add(request["places"])
            return {}
        finished = {name: asdict(samples.finish()) for name, samples in self._samples.items()}
        self._resources.close()  # whoever removes the files of the records finds none of them open
        return {"cases": self._cases.to_dict(), "samples": finished}

    def _add(self, places: Iterable[tuple[str, int, str]]) -> None:
        """Add the records at these places, each of this variant, of which its line may have another name."""
        for path, start, variant in places:
            place = Place(path=Path(path), start=start)
            record = replace(Record.from_dict(json.loads(self._lines.read(place.path, start))), variant=variant)
            outcome = AttemptOutcome.of(record, place)
            self._cases.add(outcome, record)
            if outcome.made:
                self._samples[variant].add(record)
