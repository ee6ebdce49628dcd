"""openai-python against a router: only the base URL is changed."""

import urllib.error
import urllib.request

import openai
import pytest

from cluster import BACKEND, DEMO_URLS, ROOT, await_idle, openai_url

QUESTION = [{"role": "user", "content": "Why is the sky blue?"}]


def connect(url):
    return openai.OpenAI(base_url=url, api_key="any", max_retries=0, timeout=30)


@pytest.fixture(params=DEMO_URLS, ids=["model", "path"], scope="module")
def client(request):
    with connect(request.param) as client:
        yield client


def test_chat(client):
    chat = client.chat.completions.create(model="demo", messages=QUESTION, max_completion_tokens=9)
    assert chat.object == "chat.completion"
    assert chat.choices[0].message.role == "assistant"
    assert chat.choices[0].message.content
    assert chat.choices[0].finish_reason == "length"
    assert chat.usage.completion_tokens == 9
    assert chat.usage.total_tokens == chat.usage.prompt_tokens + 9
    assert chat._request_id


def test_chat_stream(client):
    whole = client.chat.completions.create(model="demo", messages=QUESTION, max_tokens=9)
    stream = client.chat.completions.create(model="demo", messages=QUESTION, max_tokens=9, stream=True)
    assert stream.response.headers["content-type"].startswith("text/event-stream")
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks)
    assert text == whole.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == "length"
    assert all(c.usage is None for c in chunks)


def test_chat_stream_usage(client):
    chunks = list(
        client.chat.completions.create(
            model="demo", messages=QUESTION, max_tokens=9, stream=True, stream_options={"include_usage": True}
        )
    )
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 9
    assert chunks[-1].usage.prompt_tokens > 0


def test_completions(client):
    whole = client.completions.create(model="demo", prompt="Once upon a time", max_tokens=7)
    assert whole.object == "text_completion"
    assert whole.usage.completion_tokens == 7
    stream = client.completions.create(model="demo", prompt="Once upon a time", max_tokens=7, stream=True)
    assert "".join(c.choices[0].text for c in stream) == whole.choices[0].text


def test_responses(client):
    whole = client.responses.create(model="demo", input="Why is the sky blue?", max_output_tokens=8)
    assert whole.output_text
    assert whole.usage.output_tokens == 8
    events = list(client.responses.create(model="demo", input="Why is the sky blue?", max_output_tokens=8, stream=True))
    assert events[0].type == "response.created"
    assert events[-1].type in ("response.completed", "response.incomplete")
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
    assert events[-1].response.usage.output_tokens == 8


def test_embeddings(client):
    # Left alone, the SDK asks for base64 and decodes it.
    decoded = client.embeddings.create(model="demo", input=["one", "two"])
    floats = client.embeddings.create(model="demo", input=["one", "two"], encoding_format="float")
    assert [d.index for d in decoded.data] == [0, 1]
    for a, b in zip(decoded.data, floats.data):
        assert a.embedding == pytest.approx(b.embedding)
    assert decoded.data[0].embedding != decoded.data[1].embedding
    assert decoded.usage.prompt_tokens > 0


def test_models(client):
    assert "demo" in [m.id for m in client.models.list()]
    assert client.models.retrieve("demo").id == "demo"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


def test_unknown_model(client):
    with pytest.raises(openai.NotFoundError) as failure:
        client.chat.completions.create(model="nobody", messages=QUESTION)
    assert "nobody" in failure.value.message


def test_unknown_model_code():
    with connect(ROOT + "/v1") as client, pytest.raises(openai.NotFoundError) as failure:
        client.chat.completions.create(model="nobody", messages=QUESTION)
    assert failure.value.code == "model_not_found"
    assert failure.value.type == "invalid_request_error"
    assert failure.value.request_id


def test_unknown_endpoint():
    with connect(openai_url("nobody")) as client, pytest.raises(openai.APIStatusError) as failure:
        client.chat.completions.create(model="nobody", messages=QUESTION)
    assert 400 <= failure.value.status_code < 500
    assert failure.value.type == "invalid_request_error"
    assert "nobody" in failure.value.message


@pytest.mark.parametrize("messages", [[], "Why?", [7], None], ids=["empty", "string", "number", "null"])
def test_bad_messages(client, messages):
    with pytest.raises(openai.BadRequestError) as failure:
        client.chat.completions.create(model="demo", messages=messages)
    assert failure.value.message
    assert failure.value.param and failure.value.param.startswith("messages")


@pytest.mark.parametrize("url", DEMO_URLS, ids=["model", "path"])
@pytest.mark.parametrize("body", [b"", b"{", b'{"model":"demo","messages":[', b"[]", b'"demo"', b"\x00\xff"])
def test_malformed_json(url, body):
    request = urllib.request.Request(
        url + "/chat/completions", data=body, headers={"Content-Type": "application/json"}, method="POST"
    )
    with pytest.raises(urllib.error.HTTPError) as failure, urllib.request.urlopen(request):
        pass
    with failure.value as answer:
        assert answer.code == 400
        assert b'"error"' in answer.read()


def test_server_errors():
    with connect(openai_url("busy")) as client, pytest.raises(openai.RateLimitError) as failure:
        client.chat.completions.create(model="busy", messages=QUESTION)
    assert failure.value.response.headers["retry-after"] == "7"
    with connect(openai_url("failing")) as client, pytest.raises(openai.InternalServerError) as failure:
        client.chat.completions.create(model="failing", messages=QUESTION)
    assert failure.value.status_code == 500


def test_server_dies_mid_stream():
    with connect(openai_url("dying")) as client:
        stream = client.chat.completions.create(model="dying", messages=QUESTION, stream=True)
        seen = []
        with pytest.raises(openai.APIError) as failure:
            for chunk in stream:
                seen.append(chunk)
    assert len(seen) == 3
    assert type(failure.value) is openai.APIError  # an error event, not a mere reset
    assert failure.value.message


def test_abort(client):
    stream = client.chat.completions.create(model="demo", messages=QUESTION, max_tokens=100_000, stream=True)
    assert next(stream).object == "chat.completion.chunk"
    backend = stream.response.headers[BACKEND]
    stream.close()
    print(f"aborted after {await_idle(backend) * 1000:.1f} ms")


def test_prefix_affinity(client):
    system = {"role": "system", "content": f"{client.base_url} answers in verse. " * 200}
    backends, usages = [], []
    for question in ["Why is the sky blue?", "How deep is the sea?", "Who wrote this?"]:
        raw = client.chat.completions.with_raw_response.create(
            model="demo", messages=[system, {"role": "user", "content": question}], max_tokens=4
        )
        backends.append(raw.headers[BACKEND])
        usages.append(raw.parse().usage)
    assert len(set(backends)) == 1
    for usage in usages[1:]:
        assert usage.prompt_tokens_details.cached_tokens > usage.prompt_tokens * 0.9


def test_concurrent_streams(client):
    streams = [
        client.chat.completions.create(model="demo", messages=QUESTION, max_tokens=20, stream=True) for _ in range(16)
    ]
    texts = {"".join(c.choices[0].delta.content or "" for c in s) for s in streams}
    assert len(texts) == 1
