"""What the agents need besides `outside`: to tell what they hold, and to be several at once. Standard library."""

import json
import subprocess
import sys

WORKERS = 4  # that resume one interrupt


def show(**state):
    """Print what is held or stored; the program itself leaves it, to be compared with what another process reads."""
    print(json.dumps(state))
    if not any(word.startswith("--print") for word in sys.argv):
        with open("state.json", "w") as file:
            json.dump(state, file)


def at_once(program, *arguments, then=None):
    """Start *program* some times; as soon as each has come to `released`, let all go on, do *then*, and wait."""
    workers = [
        subprocess.Popen([sys.executable, program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(WORKERS)
    ]
    for worker in workers:
        while worker.stdout.readline() not in (b"ready\n", b""):
            pass
    for worker in workers:
        worker.stdin.close()
    if then:
        then()
    for worker in workers:
        worker.wait()


def released():
    """Say that everything is read, and wait for the others."""
    print("ready", flush=True)
    sys.stdin.read()
