"""`pytest-chaos completion SHELL`: what makes the shell complete commands, options, codes and cells.

The completing itself is argcomplete's, which pytest uses for its own options too.
"""

from __future__ import annotations

import argparse

from chaos.plugins.commands import OK

HELP = "print what makes bash, zsh or fish complete pytest-chaos"
EPILOG = """put into ~/.bashrc:                 source <(pytest-chaos completion bash)
into ~/.zshrc, behind compinit:     source <(pytest-chaos completion zsh)
into ~/.config/fish/config.fish:    pytest-chaos completion fish | source
for the options of pytest itself:   eval "$(register-python-argcomplete pytest)" """.rstrip()

SHELLS = ("bash", "zsh", "fish")
PROGRAM = "pytest-chaos"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of: {', '.join(SHELLS)}")


def run(options: argparse.Namespace) -> int:
    """Print the shell's code."""
    from argcomplete.shell_integration import shellcode

    print(shellcode([PROGRAM], shell=options.shell))
    return OK
