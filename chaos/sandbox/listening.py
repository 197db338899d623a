"""Which TCP ports are listened on, and by which socket: asked of the kernel for just these, or read from its tables."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

LISTEN = 10  # TCP_LISTEN in the kernel's numbers; "0A" in its tables
SOCK_DIAG = 4  # NETLINK_SOCK_DIAG: see sock_diag(7)
BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
ERROR, DONE = 2, 3  # NLMSG_ERROR, NLMSG_DONE
RECEIVE_BYTES = 1 << 16
HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
REQUEST = struct.Struct("=BBBxI48x")  # struct inet_diag_req_v2: family, protocol, extensions, states
PORT, INODE = 4, 68  # where struct inet_diag_msg has the port (big endian) and the socket's inode


def listening() -> dict[str, int]:
    """Return the port of each listening TCP socket by its link text, "socket:[INODE]"."""
    try:
        return {f"socket:[{inode}]": port for inode, port in _asked()}
    except OSError:  # a kernel without tcp_diag, or a container that refuses netlink
        return {f"socket:[{inode}]": port for inode, port in _read()}


def _asked() -> Iterator[tuple[int, int]]:
    """Yield inode and port; to be told of these sockets alone takes microseconds, the tables hold all connections."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as kernel:
        for family in (socket.AF_INET, socket.AF_INET6):
            body = REQUEST.pack(family, socket.IPPROTO_TCP, 0, 1 << LISTEN)
            kernel.send(HEADER.pack(HEADER.size + len(body), BY_FAMILY, DUMP, 0, 0) + body)
            yield from _answers(kernel)


def _answers(kernel: socket.socket) -> Iterator[tuple[int, int]]:
    while True:
        data = memoryview(kernel.recv(RECEIVE_BYTES))
        while data:
            size, kind, *_ = HEADER.unpack_from(data)
            if kind == DONE:
                return
            if kind == ERROR:
                code = -struct.unpack_from("=i", data, HEADER.size)[0]
                raise OSError(code, "the kernel lists no sockets")
            (port,) = struct.unpack_from("!H", data, HEADER.size + PORT)
            (inode,) = struct.unpack_from("=I", data, HEADER.size + INODE)
            yield inode, port
            data = data[(size + 3) & ~3 :]


def _read() -> Iterator[tuple[int, int]]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:
                next(lines)
                for line in lines:
                    fields = line.split()
                    if int(fields[3], 16) == LISTEN:
                        yield int(fields[9]), int(fields[1].rpartition(":")[2], 16)
        except FileNotFoundError:  # a kernel without IPv6
            continue
