from __future__ import annotations

import io

from pytest_jsbench.cli.output import Output


def test_output_leaves_its_stream_to_the_caller() -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written)
    first, second = Output(stream), Output(stream)
    first.lines(["a \x1b[2J line"])

    first.close()

    assert written.getvalue() == b"a \\x1b[2J line\n"
    stream.close()
    second.close()  # as Python does when the object is finalized
