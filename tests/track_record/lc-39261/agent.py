"""A clerk reads a ledger of long pages; its context is compacted by LangChain's middleware when it gets long."""

from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware, SummarizationMiddleware
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool

GOAL = "Move the ledger to version 2, and leave account 4711 alone."


@tool
def read(page: int) -> str:
    """Read a page of the ledger."""
    return f"page {page}: " + "row " * 1200


model = ChatAnthropic(model="any", api_key="none")
compact = SummarizationMiddleware(
    model=model, trigger=("messages", 6), keep=("messages", 2), trim_tokens_to_summarize=1500
)
limit = ModelCallLimitMiddleware(run_limit=5, exit_behavior="end")
agent = create_agent(model, [read], middleware=[compact, limit])
agent.invoke({"messages": [{"role": "user", "content": GOAL}]})
