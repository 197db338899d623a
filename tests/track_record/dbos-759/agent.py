"""A customer's bill is enqueued under the order's key, which an order may lack; a worker bills it, and reports."""

import os
import threading
import time

from dbos import DBOS, DBOSClient, Queue
from outside import ask, call, durable

DATABASE = f"sqlite:///{durable('dbos.db')}"
ORDER = {"key": ""}
SECONDS = 4  # that a worker looks for work
billed = threading.Event()

DBOS(
    config={
        "name": "billing",
        "system_database_url": DATABASE,
        "executor_id": "worker",
        "application_version": "1",
        "run_admin_server": False,
        "log_level": "CRITICAL",
    }
)
try:
    Queue("bills", polling_interval_sec=0.2)
    declared = True
except Exception:  # from DBOS 3 on they are registered when it has been launched
    declared = False


@DBOS.workflow(name="bill")
def bill():
    call("bank.bill", amount=ask("How much?"))
    billed.set()


DBOS.launch()
if not declared:
    DBOS.register_queue("bills", polling_interval_sec=0.2)
if not os.path.exists(durable("enqueued")):
    client = DBOSClient(system_database_url=DATABASE)
    options = {"queue_name": "bills", "workflow_name": "bill", "app_version": "1"}
    try:
        client.enqueue({**options, "workflow_id": ORDER["key"]})
    except Exception:  # newer ones want an id or none
        client.enqueue(options)
    open(durable("enqueued"), "w").close()
billed.wait(SECONDS)
time.sleep(1)  # what else there is begins, and what has ended is stored
ask("How much?", "66 crowns", "All is billed?")
os._exit(0)
