"""Requests from a Python program to the valgrind that runs it.

Valgrind watches for a sequence of instructions that no compiler makes: four rotations of a register that add
up to none, then an exchange of another register with itself. It then reads a request from memory. On a bare
processor the same sequence does nothing. `callgrind_control` sends the same requests from outside, but not at
an exact point of the program.
"""

import ctypes
import mmap
import platform
from collections.abc import Callable
from functools import partial

from bench.errors import Unavailable

_MACHINE = "x86_64"
_CODE = bytes.fromhex(
    "4889f8"  # rax = the first argument: where the request stands
    "4889f2"  # rdx = the second: the answer without valgrind
    "48c1c703 48c1c70d 48c1c73d 48c1c733"  # rotate rdi by 3, 13, 61 and 51 bits: twice around
    "4887db"  # exchange rbx with itself
    "4889d0 c3"  # return rdx
)
_CALLGRIND = int.from_bytes(b"CT", "big") << 16
_ZERO, _DUMP, _START, _STOP = (_CALLGRIND + number for number in (1, 3, 4, 5))

Request = Callable[[], int]
"""Made ready beforehand, so that as little as possible of it is counted. Answers 0 without valgrind."""


class Requests:
    """Makes requests.

    Raises:
        Unavailable: The instructions for this processor are not known here, or memory with code is refused.
    """

    def __init__(self) -> None:
        if platform.machine() != _MACHINE:
            raise Unavailable(
                f"requests to valgrind are written for {_MACHINE}, this is {platform.machine()}"
            )
        try:
            self._page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        except OSError as error:
            raise Unavailable(f"the system refuses memory that holds code: {error}") from error
        self._page.write(_CODE)
        kind = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)
        self._call = kind(ctypes.addressof(ctypes.c_char.from_buffer(self._page)))

    def _request(self, number: int, argument: int = 0) -> Request:
        return partial(self._call, (ctypes.c_uint64 * 6)(number, argument), 0)

    def start(self) -> Request:
        """Count from now on. Until then a program runs several times faster."""
        return self._request(_START)

    def stop(self) -> Request:
        """Count no longer."""
        return self._request(_STOP)

    def zero(self) -> Request:
        """Forget what was counted."""
        return self._request(_ZERO)

    def dump(self, name: str) -> Request:
        """Write what was counted into a file that bears this name inside."""
        text = ctypes.create_string_buffer(name.encode())
        request = self._request(_DUMP, ctypes.addressof(text))
        return partial(_keeping, text, request)


def _keeping(_: object, request: Request) -> int:
    return request()
