"""Four tasks are enqueued; the worker that comes back is the next release, which has dropped the function of one."""

import os
import sys
import time

from dbos import DBOS, DBOSClient, Queue
from outside import ask, call, durable

DATABASE = f"sqlite:///{durable('dbos.db')}"
TASKS = (("sweep", 0), ("pack", 1), ("pack", 2), ("pack", 3))

DBOS(
    config={
        "name": "shop",
        "system_database_url": DATABASE,
        "executor_id": "worker",
        "application_version": "1",
        "run_admin_server": False,
        "log_level": "CRITICAL",
    }
)
try:
    Queue("tasks", polling_interval_sec=0.2)
    declared = True
except Exception:  # from DBOS 3 on they are registered when it has been launched
    declared = False


@DBOS.workflow(name="pack")
def pack(number):
    call("shop.pack", key=f"pack-{number}", number=number)


if "--release-2" not in sys.argv:

    @DBOS.workflow(name="sweep")
    def sweep(number):
        pass


def enqueue():
    client = DBOSClient(system_database_url=DATABASE)
    for name, number in TASKS:
        options = {"queue_name": "tasks", "workflow_name": name, "app_version": "1", "workflow_id": f"{name}-{number}"}
        client.enqueue(options, number)
    client.destroy()


if "--enqueue" in sys.argv:  # by itself: no worker is about yet
    DBOS.launch()
    DBOS.destroy()
    enqueue()
    sys.exit()
if not os.path.exists(durable("dbos.db")):
    os.system(f"{sys.executable} {sys.argv[0]} --enqueue")
ask("May I begin?")
DBOS.launch()
if not declared:
    DBOS.register_queue("tasks", polling_interval_sec=0.2)
while any(one.name == "pack" and one.status != "SUCCESS" for one in DBOS.list_workflows()):
    time.sleep(0.1)
os._exit(0)
