"""Cgroup version 2 for real, whatever this machine has: in a guest under User-mode Linux.

The guest sees the machine's files read-only, mounts what a v2 machine has, and runs the script below as its init.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import chaos
from chaos.sandbox.hierarchy import PIDS_LIMIT

LINUX = shutil.which("linux.uml") or shutil.which("linux")
GUEST_SECONDS = 150.0  # boots in 3 s, and each start and kill takes some; a guest is 10 to 50 times slower

INIT = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /run
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={paths} {python} {script} {unprivileged}
exec {python} -I -S -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321FEDC)'
"""

GUEST = """
import os, subprocess, sys, time, traceback
from pathlib import Path
from chaos.sandbox import hierarchy
from chaos.sandbox.process import ProcessSandbox, able

def say(**facts):
    for name, value in facts.items():
        print("GUEST", name, repr(value), flush=True)

CHILD = "import os, time\\nif os.fork() == 0: open('child', 'w').close(); time.sleep(1000)\\n"
AGENT = "import time; x = bytearray(20 << 20); open('ready', 'w').close(); time.sleep(1000)"

NOBODY = '''
import os, sys
from pathlib import Path
from chaos.sandbox.process import ProcessSandbox
box = ProcessSandbox(Path("/run/nobody"), 128 << 20, "alpha")
box.start([sys.executable, "-I", "-S", "-c", "import time; x = bytearray(20 << 20); time.sleep(1000)"], {})
print(os.getuid(), box._cgroup.memory.parent, box.oom_kill(None)[2:], box.wait(60))
box.close()
'''

def start(code):
    for name in ("ready", "child"):
        (box.zones.workspace / name).unlink(missing_ok=True)
    box.start([sys.executable, "-I", "-S", "-c", code], {})
    while not (box.zones.workspace / "ready").exists():
        time.sleep(0.01)

try:
    # In a container the top of what is seen is no root cgroup: it may not hold processes beside children.
    inner = Path("/sys/fs/cgroup/inner")
    Path("/sys/fs/cgroup/cgroup.subtree_control").write_text("+memory +pids")
    inner.mkdir()
    (inner / "cgroup.procs").write_text("0")
    os.environ[hierarchy.VARIABLE] = str(inner)
    say(named=hierarchy.find_parent().memory == inner, own=Path("/proc/self/cgroup").read_text().strip())
    del os.environ[hierarchy.VARIABLE]

    say(able=able())
    box = ProcessSandbox(Path("/run/box"), 128 << 20, "alpha")
    group = box._cgroup
    read = lambda name: (group.memory / name).read_text().strip()
    say(group=read("memory.oom.group"), limit=read("memory.max"), pids=read("pids.max"))
    start(CHILD + AGENT)
    say(hit=box.oom_kill(None), status=box.wait(60), left=sorted(group.pids()))
    say(restored=read("memory.max"))
    start(AGENT)
    say(miss=box.oom_kill(100 << 20), alive=box.wait(0.2), limit_after_miss=group.limit())
    say(too_low=box.oom_kill(10 << 20), low_status=box.wait(60))
    box.start([sys.executable, "-I", "-S", "-c", "x = bytearray(200 << 20)"], {})
    say(real=box.wait(60), counter=box.oom_kills())
    folder = group.memory
    box.close()
    if sys.argv[1:]:
        user = Path("/sys/fs/cgroup/user")
        user.mkdir()
        for path in (user, user / "cgroup.procs", user / "cgroup.threads", user / "cgroup.subtree_control"):
            os.chown(path, 65534, 65534)
        enter = ["sh", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"', str(user)]
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *sys.argv[1:], "-c", NOBODY]
        say(nobody=subprocess.run([*enter, *drop], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout)
    say(removed=not folder.exists() and not Path("/run/box").exists())
except BaseException:
    traceback.print_exc(file=sys.stdout)
"""


@pytest.mark.skipif(LINUX is None, reason="no User-mode Linux (`linux.uml`; Debian: apt-get install user-mode-linux)")
def test_oom_kill_on_cgroup_v2(tmp_path: Path) -> None:
    script, init = tmp_path / "guest.py", tmp_path / "init"
    paths = dict.fromkeys(str(Path(module.__file__ or "").parents[1]) for module in (chaos, msgspec))
    script.write_text(GUEST)
    unprivileged = _python_for_nobody(":".join(paths))
    init.write_text(INIT.format(paths=":".join(paths), python=sys.executable, script=script, unprivileged=unprivileged))
    init.chmod(0o755)
    facts, output = _boot(init)
    assert "removed" in facts, output
    assert facts["named"] == "True" and facts["own"].strip("'").endswith("/inner/chaos-harness")
    assert "memory_controller='v2'" in facts["able"] and "memory_limit=''" in facts["able"]
    assert (facts["group"], facts["limit"]) == ("'1'", f"'{128 << 20}'")
    assert facts["pids"] == f"'{PIDS_LIMIT}'"
    *_, before, after = map(int, facts["hit"].strip("()").split(","))
    assert after > before == 0
    assert (facts["status"], facts["left"], facts["restored"]) == ("-9", "[]", f"'{128 << 20}'")
    limit, usage, before, again = map(int, facts["miss"].strip("()").split(","))
    assert before == again == after and limit == 100 << 20 and usage > 20 << 20
    assert (facts["alive"], facts["limit_after_miss"]) == ("None", str(128 << 20))
    limit, _, before, after = map(int, facts["too_low"].strip("()").split(","))
    assert after > before and limit == 10 << 20 and facts["low_status"] == "-9"
    assert facts["real"] == "-9" and int(facts["counter"]) > after
    assert facts["removed"] == "True"
    if unprivileged:
        who, where, before_after, status = facts["nobody"].strip("'").removesuffix("\\n").replace(", ", ",").split(" ")
        assert (who, where, status) == ("65534", "/sys/fs/cgroup/user", "-9")
        assert before_after in ("(0,1)", "(0,2)"), "with memory.oom.group the kernel counts the group once more"


def _python_for_nobody(paths: str) -> str:
    """Return an interpreter that an unprivileged user may run with our packages; "" where there is none."""
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", f"PYTHONPATH={paths}"]
    for python in (sys.executable, "/usr/bin/python3") if os.geteuid() == 0 and shutil.which("setpriv") else ():
        if subprocess.run([*drop, python, "-c", "import chaos.journal"], capture_output=True, cwd="/").returncode == 0:
            return python
    return ""


def _boot(init: Path) -> tuple[dict[str, str], str]:
    """Boot the guest with *init*; return the facts that it printed, and all that it printed."""
    assert LINUX
    options = ["mem=768M", "rootfstype=hostfs", "rootflags=/", "ro", "quiet", "con=null", "con0=fd:0,fd:1"]
    guest = subprocess.Popen(
        [LINUX, *options, f"init={init}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        env={"PATH": os.environ["PATH"], "HOME": str(init.parent)},
    )
    try:
        output, _ = guest.communicate(timeout=GUEST_SECONDS)
    finally:
        if guest.poll() is None:
            os.killpg(guest.pid, signal.SIGKILL)
            output, _ = guest.communicate()
            print(output)
    facts = [line.split(" ", 2)[1:] for line in output.splitlines() if line.startswith("GUEST ")]
    return dict(facts), output
