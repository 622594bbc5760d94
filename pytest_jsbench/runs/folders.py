"""The folder of a run: a new one for each."""

from __future__ import annotations

from pathlib import Path

from pytest_jsbench.core.errors import JournalError
from pytest_jsbench.core.files import make_private_folder, private, try_writing


def new_folder(parent: Path, name: str) -> Path:
    """A folder of that name, or with a number after it where there is one; JournalError where none can be made."""
    number = 1
    while True:
        folder = parent / (name if number == 1 else f"{name}.{number}")
        try:
            make_private_folder(folder, exist_ok=False)
            try_writing(folder)
            private(folder / "records.jsonl")
        except FileExistsError:
            if parent.is_dir() and number < 1000:
                number += 1
                continue
            message = f"--jsbench-output={parent} is not a folder; name a folder that can be written"
            raise JournalError(message, found=parent, where="--jsbench-output") from None
        except OSError as error:
            message = f"cannot write to --jsbench-output={parent}: {error.strerror}; name a folder that can be written"
            raise JournalError(message, found=parent, where="--jsbench-output") from None
        else:
            return folder
