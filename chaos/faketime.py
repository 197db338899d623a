"""libfaketime, cut down to what asks for the wall clock or waits for a time on it.

Of the rest, some is of no use here (file times, random numbers, process ids) and some is wrong: version 0.9.10, which
Debian 12 has, takes a monotonic deadline of `clock_nanosleep` for one of the wall clock, so that a `time.sleep` of
Python 3.11 lasts as long as the jump (wolfcw/libfaketime issue 426). A function that is hidden is the C library's own.
"""

from __future__ import annotations

import functools
import glob
import struct
from multiprocessing.util import Finalize
from pathlib import Path

from chaos import leftovers
from chaos.errors import HarnessError

LIBRARIES = tuple(
    f"{folder}/faketime/libfaketimeMT.so.1"
    for folder in ("/usr/lib/*-linux-gnu*", "/usr/lib64", "/usr/lib", "/usr/local/lib")
)
"""Where distributions and its own Makefile install it; MT is the build for programs with threads."""

KEPT = frozenset(
    b"clock_gettime __clock_gettime gettimeofday __gettimeofday time __time ftime __ftime timespec_get"
    b" sem_timedwait pthread_cond_init pthread_cond_destroy pthread_cond_timedwait".split()
)
"""What stays in force: reading the wall clock, and waiting for a time that was reckoned from it."""

ELF64_LITTLE = b"\x7fELF\x02\x01"
SECTION_TABLE = struct.Struct("<40xQ10xHH")  # in the file's header: where it is, size of an entry, how many
SECTION = struct.Struct("<4xI16xQQI")  # type, offset, size, link: the dynamic symbols' link is their names' section
SYMBOL = struct.Struct("<IBBH16x")  # name, info, other, section
OTHER = 5  # offset in a symbol of the byte with its visibility
DYNAMIC_SYMBOLS, HIDDEN, UNDEFINED = 11, 2, 0  # elf(5): SHT_DYNSYM, STV_HIDDEN, SHN_UNDEF


def installed() -> str:
    """Return where libfaketime is, "" if it is nowhere."""
    return next((found for pattern in LIBRARIES for found in sorted(glob.glob(pattern))), "")


@functools.cache
def library() -> Path:
    """Return a copy of this machine's libfaketime, cut down; it is there until this process ends.

    Raises:
        HarnessError: there is none, or it is not of a kind that can be cut.
    """
    if not (original := installed()):
        raise HarnessError("there is no libfaketime; apt-get install libfaketime")
    folder = leftovers.folder("faketime-")
    Finalize(None, leftovers.remove, (folder,), exitpriority=0)  # not atexit, which a forked worker does without
    cut = folder / Path(original).name
    cut.write_bytes(cut_down(Path(original).read_bytes()))
    return cut


def cut_down(library: bytes) -> bytes:
    """Return the shared *library* with every function hidden from other programs that is not in KEPT.

    Raises:
        HarnessError: it is no ELF file of a 64-bit little-endian machine, or has none of the functions.
    """
    if not library.startswith(ELF64_LITTLE):
        raise HarnessError("libfaketime is not a 64-bit little-endian ELF file, and nothing else can be cut here")
    try:
        return _cut_down(library)
    except (struct.error, ValueError, IndexError) as error:
        raise HarnessError(f"libfaketime is no whole ELF file ({error}); install it again") from error


def _cut_down(library: bytes) -> bytes:
    table, entry, count = SECTION_TABLE.unpack_from(library)
    sections = [SECTION.unpack_from(library, table + entry * number) for number in range(count)]
    cut, kept = bytearray(library), set[bytes]()
    for kind, offset, size, link in sections:
        if kind != DYNAMIC_SYMBOLS:
            continue
        names = sections[link][1]
        for place in range(offset, offset + size, SYMBOL.size):
            at, _, other, section = SYMBOL.unpack_from(library, place)
            name = library[names + at : library.index(b"\0", names + at)]
            if name in KEPT and section != UNDEFINED:
                kept.add(name)
            elif section != UNDEFINED:
                cut[place + OTHER] = other & ~3 | HIDDEN
    if b"clock_gettime" not in kept:
        raise HarnessError("libfaketime has no clock_gettime among its dynamic symbols")
    return bytes(cut)
