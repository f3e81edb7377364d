"""One file that holds a state: written whole or not at all, and read without running code."""

import os
import pickle
import struct
import zipfile
import zlib
from pathlib import Path

import torch

from course_utils.arguments import cause, shown

PARTIAL = ".partial"
# The errors that reading raises for a damaged archive, or for a file that is none.
BROKEN = (
    OSError, EOFError, RuntimeError, ValueError, OverflowError, IndexError, zipfile.BadZipFile,
    zlib.error, struct.error, pickle.UnpicklingError,
)  # fmt: skip
PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


def write(path: Path, state: dict) -> None:
    """Write `state` beside `path`, read it back, and only then give it that name.

    What stood at `path` stays there until then. Raises ValueError for a part that `read` would
    refuse, naming it, and OSError if the disk is full or cannot be written.
    """
    partial = path.with_name(path.name + PARTIAL)
    try:
        with open(partial, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())  # on the disk, not only in the system's memory
        read(partial, mmap=True)
        os.replace(partial, path)  # atomic: the name means the old file or the new one
    except Exception as error:
        partial.unlink(missing_ok=True)
        if strange := _strange(state, ""):
            raise ValueError(f"{strange} could not be read back safely") from error
        raise OSError(_reason(error)) from error
    _sync(path.parent)


def read(path: Path, *, mmap: bool = False) -> dict:
    """What the file holds; one of `BROKEN` if it is damaged or holds more than plain data.

    With `mmap`, tensors stay in the file until they are used.
    """
    with zipfile.ZipFile(path) as archive:  # what torch.save writes, with a checksum of each part
        damaged = archive.testzip()
    if damaged:
        raise ValueError(f"its part {damaged} is damaged")
    return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)


def why(error: BaseException) -> str:
    """In words why a file could not be read."""
    if isinstance(error, pickle.UnpicklingError):
        return "it holds more than plain data"
    if isinstance(error, zipfile.BadZipFile):
        return f"it is no file of torch.save, or was cut off: {cause(error)}"
    return cause(error) or type(error).__name__


def _strange(value: object, where: str) -> str:
    """Where in `value` there is something that reading refuses, and what; '' if nowhere."""
    if isinstance(value, dict):
        inside = [(f"{where}[{name!r}]" if where else str(name), v) for name, v in value.items()]
    elif isinstance(value, (list, tuple)):
        inside = [(f"{where}[{at}]", v) for at, v in enumerate(value)]
    elif isinstance(value, torch.Tensor) or type(value) in PLAIN:
        return ""
    else:
        return f"{where}, which is {shown(value)},"
    return next(filter(None, (_strange(v, place) for place, v in inside)), "")


def _reason(error: Exception) -> str:
    """The disk's own error, which torch.save may hide behind one about positions in the file."""
    hidden = error.__context__
    disk = isinstance(error, RuntimeError) and isinstance(hidden, OSError)
    return str(hidden if disk else error) or type(error).__name__


def _sync(folder: Path) -> None:
    """Write the folder to disk too, so that the new name lasts; Windows cannot, and need not."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
