"""Prints the memory in which the kernel put the environment of this process, unchanged and in a sandboxed child."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import partial

from thpdiag.sandbox.outcome import Answer
from thpdiag.sandbox.supervise import run_in_child


def memory(address: int, size: int) -> Answer:
    shown = "\n".join(f"{name}={value}" for name, value in os.environ.items())
    return Answer(ctypes.string_at(address, size) + shown.encode(errors="surrogateescape"))


if __name__ == "__main__":
    pointers = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    names = [pointers[number] for number in range(len(os.environ))]
    begin, end = min(names), max(names) + len(ctypes.string_at(max(names)))
    call = partial(memory, begin, end - begin)
    sys.stdout.buffer.write(call().content + b"--\n" + run_in_child(call).content)
