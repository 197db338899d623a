"""An assistant books a room. Asked to stop (SIGTERM) it cancels its run and keeps the history, and goes on from it."""

import asyncio
import os
import signal

from outside import call, durable
from pydantic_ai import Agent, CancellationToken, RunCancelled
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

HISTORY = durable("history.json")
provider = OpenAIProvider(base_url=os.environ["OPENAI_BASE_URL"], api_key="none")
agent = Agent(OpenAIChatModel("any", provider=provider))


@agent.tool_plain
async def book(room: int) -> str:
    """Book a room."""
    return (await asyncio.to_thread(call, "hotel.book", key=f"room {room}", room=room))["booking"]


def keep(messages):
    with open(HISTORY, "wb") as file:
        file.write(ModelMessagesTypeAdapter.dump_json(messages))


async def main():
    history, prompt = [], "Book room 7."
    if os.path.exists(HISTORY):
        with open(HISTORY, "rb") as file:
            history, prompt = ModelMessagesTypeAdapter.validate_json(file.read()), "Go on."
    token = CancellationToken()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, token.cancel)
    try:
        keep((await agent.run(prompt, message_history=history, cancellation_token=token)).all_messages())
    except RunCancelled as cancelled:
        keep(cancelled.all_messages())
        os._exit(143)  # at once: the thread of the call does not end before it is answered


asyncio.run(main())
