"""Commits with the same hashes in every run: author, dates and configuration are given, not found."""

from __future__ import annotations

import shlex

from chaos.targets.reference.shell import Shell

AUTHOR = {"NAME": "Reference Agent", "EMAIL": "agent@example.com"}

_CONFIG = {
    "safe.directory": "*",  # in a user namespace the workspace may seem to belong to somebody else
    "core.abbrev": "12",  # the length of a short hash must not depend on how many objects there are
    "gc.auto": "0",  # nothing in the background
    "maintenance.auto": "false",
}

ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": str(len(_CONFIG)),
    **{f"GIT_CONFIG_KEY_{i}": key for i, key in enumerate(_CONFIG)},
    **{f"GIT_CONFIG_VALUE_{i}": value for i, value in enumerate(_CONFIG.values())},
    **{f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in AUTHOR.items()},
}
"""Environment of a shell in which `commit` works."""

# A commit is known by its message, so that one which is already there is found and not made again.
# *.lock: a git that was killed leaves its lock behind, and there is no other git here.
_COMMIT = """(
cd "$CHAOS_WORKSPACE" || exit 3
{init}
[ -d .git ] || exit 4
rm -f .git/*.lock
hash=$(git log -n 1 --format=%h --fixed-strings --grep={message})
if [ -z "$hash" ]; then
  export GIT_AUTHOR_DATE={date} GIT_COMMITTER_DATE={date}
  git add -A && git commit -q -m {message} && hash=$(git log -n 1 --format=%h) || exit 5
fi
printf %s "$hash"
)"""
_INIT = "[ -d .git ] || git init -q --template= -b main"


def commit(shell: Shell, message: str, date: str, *, first: bool) -> str:
    """Commit the whole workspace and return the short hash, "" if that failed.

    Args:
        message: unique among the commits of the repository.
        date: of author and committer, as in "1700000000 +0000".
        first: make the repository if there is none.
    """
    script = _COMMIT.format(init=_INIT if first else "", message=shlex.quote(message), date=shlex.quote(date))
    status, output = shell.run(script)
    return output if status == 0 else ""
