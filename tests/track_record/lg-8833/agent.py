"""A worker with its own loop over LangGraph's saver: a task is tried twice, each try notes its error and output."""

import json
import sqlite3
import sys

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from outside import ask, durable, leave

THREAD = {"configurable": {"thread_id": "printing", "checkpoint_ns": ""}}
QUESTION = "What does the printer say?"
saver = SqliteSaver(sqlite3.connect(durable("threads.db"), check_same_thread=False))


def stored():
    return {channel: value for _, channel, value in saver.get_tuple(THREAD).pending_writes}


if "--print" in sys.argv:
    print(json.dumps({"error": stored()["__error__"]}))
else:
    begun = saver.get_tuple(THREAD)
    at = begun.config if begun else saver.put(THREAD, empty_checkpoint(), {}, {})
    first = ask(QUESTION)
    saver.put_writes(at, [("__error__", first), ("pages", 1)], "print")
    second = ask(QUESTION, first, "And now?")
    saver.put_writes(at, [("__error__", second), ("pages", 2)], "print")
    leave(error=second)
