"""Official SDKs through the proxy, with our own world as the provider; the cassette answers as the provider did."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from chaos.world import Reply
from chaos.world.cassette import Cassette, Exchange, exchanges
from chaos.world.mishaps import Cut, Refuse
from chaos.world.recorder import MASKED, Recorder

KEY = "sk-proj-a-secret-of-some-length"
GOAL = "find the price of tea"
ASK: Any = [{"role": "user", "content": GOAL}]
LONG: Any = [{"role": "user", "content": "long"}]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cassette.jsonl"


@pytest.fixture
def recorder(stage: Any, file: Path) -> Iterator[Recorder]:
    with Recorder(file, lambda path: f"http://127.0.0.1:{stage.world.port}", [KEY]) as recorder:
        yield recorder


@pytest.fixture
def gpt(recorder: Recorder) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=recorder.env()["OPENAI_BASE_URL"], api_key=KEY, max_retries=0) as client:
        yield client


def answers(file: Path) -> list[Reply | None]:
    return [exchange.said() for exchange in exchanges(file)]


def test_openai_whole_and_streamed(gpt: openai.OpenAI, file: Path) -> None:
    said = gpt.chat.completions.create(model="m", messages=ASK).choices[0].message
    with gpt.chat.completions.stream(model="m", messages=ASK) as stream:
        assert stream.get_final_completion().choices[0].message.content == said.content
    response = gpt.responses.create(model="m", input=GOAL)
    events = list(gpt.responses.create(model="m", input=GOAL, stream=True))
    assert response.output_text == said.content and events[-1].type == "response.completed"
    first, *others = answers(file)
    assert first is not None and others == [first] * 3
    assert (first.content, [call["id"] for call in first.tool_calls]) == (
        "I will search.",
        ["call_tea_0", "call_tea_1"],
    )
    (recorded, ambiguous) = (Cassette.read(file), Cassette.read(file).ambiguous)
    assert (len(recorded), ambiguous) == (1, 0), "four times the same prompt, in two forms"


def test_anthropic_whole_and_streamed(recorder: Recorder, file: Path) -> None:
    with anthropic.Anthropic(base_url=recorder.env()["ANTHROPIC_BASE_URL"], api_key=KEY) as claude:
        whole = claude.messages.create(model="m", max_tokens=9, messages=ASK)
        with claude.messages.stream(model="m", max_tokens=9, messages=ASK) as stream:
            said = [getattr(block, "text", None) or block.input for block in stream.get_final_message().content]  # type: ignore[union-attr]
    assert said == ["I will search.", {"query": "green tea price"}, {"query": "black tea price"}]
    assert [block.type for block in whole.content] == ["text", "tool_use", "tool_use"]
    first, second = answers(file)
    assert first == second and first is not None and first.content == "I will search."


def test_gemini_whole_and_streamed(recorder: Recorder, file: Path) -> None:
    genai = pytest.importorskip("google.genai", reason="google-genai is not installed (pip install google-genai)")
    options = {"base_url": recorder.env()["GOOGLE_GEMINI_BASE_URL"]}
    with genai.Client(api_key=KEY, http_options=options) as client:
        whole = client.models.generate_content(model="g", contents=GOAL)
        chunks = list(client.models.generate_content_stream(model="g", contents=GOAL))
    assert len(whole.function_calls) == sum(len(chunk.function_calls or ()) for chunk in chunks) == 2
    first, second = answers(file)
    assert first == second and first is not None and len(first.tool_calls) == 2


def test_errors_pass_and_are_no_answers(gpt: openai.OpenAI, stage: Any, file: Path) -> None:
    stage.world.mishaps.arm(Refuse(retry_after=7))
    with pytest.raises(openai.RateLimitError) as limited:
        gpt.chat.completions.create(model="m", messages=ASK)
    assert limited.value.response.headers["retry-after"] == "7" and limited.value.code == "rate_limit_exceeded"
    gpt.chat.completions.create(model="m", messages=ASK)
    assert [exchange.status for exchange in exchanges(file)] == [429, 200]
    assert answers(file)[0] is None and len(Cassette.read(file)) == 1


@pytest.mark.parametrize("dropped", [True, False])
def test_a_stream_that_breaks_off_is_none_and_the_agent_sees_it(
    gpt: openai.OpenAI, stage: Any, file: Path, dropped: bool
) -> None:
    stage.world.mishaps.arm(Cut(dropped=dropped))
    try:
        for _ in gpt.chat.completions.create(model="m", messages=LONG, stream=True):
            pass
        broken = False
    except Exception:
        broken = True
    assert broken == dropped
    while not file.exists():
        pass
    (exchange,) = exchanges(file)
    assert exchange.said() is None and exchange.events


def test_no_secret_is_written(gpt: openai.OpenAI, recorder: Recorder, file: Path) -> None:
    gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": f"hello, my key is {KEY}"}])
    port = int(recorder.env()["ANTHROPIC_BASE_URL"].rpartition(":")[2])
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    body = json.dumps({"contents": [{"parts": [{"text": "hello"}]}]})
    headers = {"X-Goog-Api-Key": "short", "Cookie": "session=0123456789"}
    connection.request("POST", "/v1beta/models/g:generateContent?key=AIza-another-secret", body, headers)
    assert connection.getresponse().status == 200
    connection.close()
    written = file.read_text()
    for secret in (KEY, "AIza-another-secret", "0123456789", '"short"'):
        assert secret not in written
    one, two = exchanges(file)
    assert one.headers["authorization"] == MASKED and two.headers["x-goog-api-key"] == MASKED
    assert two.path == f"/v1beta/models/g:generateContent?key={MASKED}" and two.said() is not None


def test_a_provider_that_is_not_there_is_told_in_the_agents_language(file: Path) -> None:
    with Recorder(file, lambda path: "http://127.0.0.1:1/v1") as recorder:
        client = openai.OpenAI(base_url=recorder.env()["OPENAI_BASE_URL"], api_key=KEY, max_retries=0)
        with client, pytest.raises(openai.InternalServerError, match=r"127.0.0.1 cannot be reached"):
            client.chat.completions.create(model="m", messages=ASK)
    (exchange,) = exchanges(file)
    assert (exchange.status, exchange.said()) == (0, None) and "refused" in exchange.text


@pytest.mark.parametrize(
    ("base", "path", "there"),
    [
        ("https://api.openai.com/v1", "/v1/responses", "/v1/responses"),
        ("https://gateway.example/openai/v1/", "/v1/responses?a=b", "/openai/v1/responses?a=b"),
        ("https://api.anthropic.com", "/v1/messages", "/v1/messages"),
        ("http://localhost:8080/proxy", "/v1beta/models/g:generateContent", "/proxy/v1beta/models/g:generateContent"),
    ],
)
def test_where_a_request_goes(file: Path, base: str, path: str, there: str) -> None:
    connection, found = Recorder(file, lambda path: base).destination(path)
    assert found == there and connection.host == base.split("/")[2].partition(":")[0]


def test_an_exchange_is_a_line(gpt: openai.OpenAI, file: Path) -> None:
    gpt.models.list()
    gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": f"two{os.linesep}lines"}])
    assert len(file.read_bytes().splitlines()) == 2
    listed, asked = exchanges(file)
    assert isinstance(asked, Exchange) and listed.method == "GET" and listed.prompt() is None
