"""Memory that is taken page by page as it is written to, not when it is allocated.

`bytearray(n)` writes zeros to all of its bytes. The function of CPython that does not has no name in Python, so ctypes calls it.
A large block then has no memory where nothing was written. Where ctypes is missing, zeros are written.

Bytes of the memory that nothing was written to are undefined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL_BYTES: Final = 16 * 1024
"""Up to this size, zeros are cheaper than the call."""


def _zeroed(memory: bytearray, size: int) -> None:
    if size < len(memory):
        del memory[size:]
    else:
        memory += bytes(size - len(memory))


def _functions() -> tuple[Callable[[int], bytearray], Callable[[bytearray, int], None]]:
    try:
        import ctypes  # noqa: PLC0415 - not every Python has it
    except ImportError:
        return bytearray, _zeroed
    api = ctypes.pythonapi  # it raises the errors of the interpreter
    make, change = api.PyByteArray_FromStringAndSize, api.PyByteArray_Resize
    make.argtypes, make.restype = (ctypes.c_char_p, ctypes.c_ssize_t), ctypes.py_object
    change.argtypes, change.restype = (ctypes.py_object, ctypes.c_ssize_t), ctypes.c_int

    def made(size: int) -> bytearray:
        memory: bytearray = make(None, size) if size > SMALL_BYTES else bytearray(size)
        return memory

    def changed(memory: bytearray, size: int) -> None:
        change(memory, size)

    return made, changed


untouched, resize = _functions()
"""`untouched(size)` returns a bytearray; `resize(memory, size)` changes the size of one in place. Both raise MemoryError, and
then change nothing. `resize` raises BufferError while a view of the memory exists.
"""
