"""Semantic snapshots: after each turn, look from outside at what the operating system shows, and store only net change.

steps.py       the agent's half: its log, one line for each step
inspector.py   two sights of a sandbox in, what has to be stored out; pure
processes.py   the processes that outlive a turn, as the kernel shows them
criu.py        their memory, dumped and brought back
manifest.py    C = (turns, files, processes), published whole
audit.py       a full diff of every turn, to find the inspector out
host.py        the half outside the sandbox that does all this while the model thinks
"""
