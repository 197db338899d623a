"""A trip booked and paid by a workflow of steps in SQLite; DBOS recovers it when the program is back.

`--pay` has a person approve first: several processes recover the one workflow that waits. `--fork` forks it twice at
the payment.
"""

import sys

from dbos import DBOS, SetWorkflowID
from outside import ask, call, durable
from together import at_once, released, show

THREAD = "trip"
GOAL = "Book a trip to Oslo."
PAYMENT = 4  # the number of its step; they are counted from 1
WAIT = 60  # seconds, for the answer

DBOS(
    config={
        "name": "travel",
        "system_database_url": f"sqlite:///{durable('trip.db')}",
        "executor_id": "local",
        "application_version": "1",
        "run_admin_server": False,
        "log_level": "CRITICAL",
    }
)


@DBOS.step()
def think(said):
    return ask(*said)


@DBOS.step()
def book(flight):
    return f"Booked: {call('travel.book', flight=flight)['booking']}. What is it?"


@DBOS.step()
def pay(amount):
    return f"Paid: {call('travel.pay', amount=amount)['receipt']}. Sum up."


@DBOS.workflow()
def trip():
    said = [GOAL]
    said.append(think(said))
    said.append(book(said[-1]))
    said.append(think(said))
    said.append(pay(said[-1]))
    said.append(think(said))
    return said


@DBOS.workflow()
def approved():
    return pay(DBOS.recv("answer", timeout_seconds=WAIT))


def begin(workflow, id=THREAD):
    """Start the workflow; one that has been started is recovered already, and has its result."""
    with SetWorkflowID(id):
        return DBOS.start_workflow(workflow)


def forks():
    """Return what the workflow and its two forks came to."""
    ends = [begin(trip).get_result()]
    for id in ("fork-1", "fork-2"):
        if DBOS.get_workflow_status(id) is None:
            with SetWorkflowID(id):
                DBOS.fork_workflow(THREAD, PAYMENT)
        ends.append(DBOS.retrieve_workflow(id).get_result())
    return ends


DBOS.launch()
if "--answer" in sys.argv:
    released()
    DBOS.retrieve_workflow(THREAD).get_result()
elif "--pay" in sys.argv:
    begin(approved)
    at_once(__file__, "--answer", then=lambda: DBOS.send(THREAD, "120", "answer"))
elif "--print-forks" in sys.argv:
    show(forks=forks())
elif "--fork" in sys.argv:
    show(forks=[forks()[0]] * 3)
elif "--print" in sys.argv:
    show(said=DBOS.retrieve_workflow(THREAD).get_result())
else:
    show(said=begin(trip).get_result())
DBOS.destroy()
