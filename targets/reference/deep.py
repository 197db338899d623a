"""The agent as a Deep Agent: the model and the tools are ours, the loop, its state and its file system are theirs.

A turn takes two of LangGraph's steps, the model's and the tools', and each has a checkpoint. The first one lies inside
of a turn and is not announced: the commit of a turn is the second, or the model's last one. A resume between the two
does not ask the model again. Messages and files are both in delta channels. Strategies import this when they run.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from deepagents import create_deep_agent
from deepagents.backends import StateBackend
from deepagents.graph import DeepAgentState
from deepagents.middleware.summarization import SummarizationMiddleware
from langchain.agents.middleware.types import AgentMiddleware, ExtendedModelResponse, ModelRequest, ModelResponse
from langchain.tools import ToolRuntime
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.types import Command

from chaos.durable import Durable
from chaos.targets.reference import savers
from chaos.targets.reference.agent import ERROR, GOAL_PREFIX, SYSTEM, TOOLS, State, turns
from chaos.targets.reference.graph import RECURSION_LIMIT, App
from chaos.targets.reference.incarnation import Agent
from chaos.targets.reference.langchain_messages import Conversation, after, from_wire, to_wire
from chaos.targets.reference.savers import Announced, Saver, newest_thread, opened

KEPT = "write_file"
"""The tool whose files are kept in Deep Agents' file system too."""
DELTAS = ("messages", "files")
"""Deep Agents' delta channels."""
GOAL_ID = "goal"
RESULT = "-result"
"""What a result's id has behind that of its call: with random ids no two runs would store the same."""
ANY_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": True}


class DeepState(DeepAgentState):
    """Deep Agents' state, and how many steps are complete: by it the saver knows a commit."""

    steps: int


class Endpoint(BaseChatModel):
    """The model endpoint as LangChain's chat model; the tools that it is told of are the agent's own list."""

    agent: Any = None
    conversation: Any = None

    @property
    def _llm_type(self) -> str:
        return "endpoint"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> "Endpoint":
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        state: State = self.conversation.state(messages)
        rest = [to_wire(one) for one in messages[len(state["messages"]) :]]  # a damaged store: the model sees it all
        state = State({**state, "messages": [*state["messages"], *rest]}) if rest else state
        # An id made from the conversation: the same when the model is asked again, another when anything differs.
        message = from_wire(self.agent.ask(state), self.conversation.digest(state))
        return ChatResult(generations=[ChatGeneration(message=message)])


class LastWord(AgentMiddleware[Any, Any, Any]):
    """Completes the step in which the model calls no tool, for no other node will."""

    state_schema = DeepState

    def __init__(self, agent: Agent, conversation: Conversation) -> None:
        super().__init__()
        self._agent, self._conversation = agent, conversation

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> Any:
        response = handler(request)
        said = cast(AIMessage, response.result[-1])
        if said.tool_calls:
            return response
        state = self._conversation.state(_opened(request.messages))
        self._agent.act(turns(state), [])
        state = after(state, said, [])
        self._agent.took(state)
        return ExtendedModelResponse(response, Command(update={"steps": turns(state)}))


class Turns(Announced):
    """A saver that announces the checkpoints in which a step has become complete; there are others in between."""

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        if "steps" not in new_versions:
            return self.inner.put(config, checkpoint, metadata, new_versions)
        return super().put(config, checkpoint, metadata, new_versions)


def drive(agent: Agent, *, every: int) -> None:
    """Begin or resume the thread of *agent* and drive it to its end.

    Args:
        every: snapshot frequency of both delta channels; messages have two updates in a turn.
    """
    agent.loading()
    with opened(agent.durable, "sqlite") as inner:
        app = compiled(agent, Turns(agent, inner), every)
        config: RunnableConfig = {"configurable": {"thread_id": agent.thread}, "recursion_limit": RECURSION_LIMIT}
        found = app.get_state(config)
        _write_back(found.values.get("files", {}), agent.zones.workspace)
        state = _state(found.values)
        agent.loaded(state)
        if state is None:
            goal = HumanMessage(GOAL_PREFIX + agent.goal, id=GOAL_ID)
            app.invoke({"messages": [goal], "steps": 0}, config, durability="sync")
        elif found.tasks:
            app.invoke(None, config, durability="sync")
        final = _state(app.get_state(config).values)
        assert final is not None
        agent.finished(final)


def stored(durable: Durable, *, every: int) -> State | None:
    """Return the state that a resume would find in *durable*, None if there is none."""
    with savers.stored(durable, "sqlite") as inner:
        if inner is None or (thread := newest_thread(inner)) is None:
            return None
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        return _state(compiled(None, inner, every).get_state(config).values)


def compiled(agent: Agent | None, saver: Saver, every: int) -> App:
    """Return the Deep Agent on *saver*; without an *agent* it can be looked at and not be run."""
    conversation, backend = Conversation(), StateBackend()
    actor = cast(Agent, agent)
    model = Endpoint(agent=agent, conversation=conversation)
    tools = [_tool(name, text, partial(_act, actor, conversation, backend)) for name, text in TOOLS]
    # The scripted model cannot be asked for a summary: without a trigger, nobody asks.
    whole = SummarizationMiddleware(model, backend=backend, trigger=None)
    app: App = create_deep_agent(
        model,
        tools,
        system_prompt=SYSTEM,
        middleware=[whole, LastWord(actor, conversation)],
        backend=backend,
        state_schema=DeepState,
        checkpointer=saver,
    )
    for name in DELTAS:  # Deep Agents has no option for it: 50 is written into its state
        cast(DeltaChannel[Any], app.channels[name]).snapshot_frequency = every
    return app


def _tool(name: str, text: str, act: Callable[[str, ToolRuntime, Mapping[str, Any]], Command[Any]]) -> StructuredTool:
    def run(runtime: ToolRuntime, **given: Any) -> Command[Any]:
        return act(name, runtime, given)

    return StructuredTool.from_function(run, name=name, description=text, args_schema=ANY_ARGUMENTS, infer_schema=False)


def _act(
    agent: Agent,
    conversation: Conversation,
    backend: StateBackend,
    name: str,
    runtime: ToolRuntime,
    given: Mapping[str, Any],
) -> Command[Any]:
    """Do what the model called for and complete the step. It calls one tool at a time; LangGraph refuses two."""
    messages = runtime.state["messages"]
    said, state = cast(AIMessage, messages[-1]), conversation.state(_opened(messages))
    calls = [call for call in to_wire(said)["tool_calls"] if call["id"] == runtime.tool_call_id]
    [result] = agent.act(turns(state), calls)
    if name == KEPT and not result.startswith(ERROR):
        backend.write(f"/{given['path']}", given["content"])
    answer = ToolMessage(result, tool_call_id=runtime.tool_call_id, name=name, id=f"{said.id}{RESULT}")
    state = after(state, said, [answer])
    agent.took(state)
    return Command(update={"messages": [answer], "steps": turns(state)})


def _opened(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages of Deep Agents' state with the system's, which is not in it."""
    return [SystemMessage(SYSTEM), *messages]


def _state(values: Mapping[str, Any]) -> State | None:
    """Return the state after the complete steps, None if not even the input has been taken in."""
    messages = values.get("messages")
    return Conversation().state(_opened(messages)) if messages else None


def _write_back(files: Mapping[str, Mapping[str, str]], workspace: Path) -> None:
    """Put the files of Deep Agents' file system that the *workspace* lacks back into it."""
    for name, kept in files.items():
        path = workspace / name.removeprefix("/")
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(kept["content"])
