"""A janitor with a streaming model: it cleans up what it is told to, with a backup if it is told that."""

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from outside import call


@tool
def purge(folder: str, backup: bool = False) -> str:
    """Delete a folder."""
    return str(call("disk.purge", folder=folder, backup=backup))


model = ChatAnthropic(model="any", api_key="none").bind_tools([purge])
messages = [HumanMessage("Clean up /var/tmp/old, with a backup.")]
while True:
    reply = None
    for chunk in model.stream(messages):
        reply = chunk if reply is None else reply + chunk
    if not reply.tool_calls:
        break
    messages += [reply, *map(purge.invoke, reply.tool_calls)]
