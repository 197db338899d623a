"""`python -m salesmath.engine FILE.csv [--consume]`: answers queries about a table on 127.0.0.1:$ENGINE_PORT.

One line of JSON in, one out. The table is read once, at the start: the answers live in this process's memory, and with
--consume nowhere else, for the file is removed.
"""

from __future__ import annotations

import json
import os
import socket
import sys

from salesmath import Sale, answer, read  # type: ignore[import-not-found]  # as installed from the wheel

MAX_QUERY_BYTES = 1 << 16
QUERY_SECONDS = 5.0  # one client at a time: one that says nothing must not block the others


def serve(listener: socket.socket, sales: tuple[Sale, ...]) -> None:
    """Answer one client after the other, for ever."""
    while True:
        connection, _ = listener.accept()
        try:
            with connection, connection.makefile("rwb") as stream:
                connection.settimeout(QUERY_SECONDS)
                query = json.loads(stream.readline(MAX_QUERY_BYTES))
                stream.write(json.dumps(answer(sales, query), sort_keys=True).encode() + b"\n")
        except (OSError, ValueError, AttributeError) as error:
            print(error, file=sys.stderr)


def main() -> None:
    """Read the table and serve it."""
    with open(sys.argv[1], encoding="utf-8") as file:
        sales = read(file.read())
    if "--consume" in sys.argv[2:]:
        os.unlink(sys.argv[1])
    with socket.create_server(("127.0.0.1", int(os.environ["ENGINE_PORT"]))) as listener:
        serve(listener, sales)


if __name__ == "__main__":
    main()
