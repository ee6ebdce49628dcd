"""boto3's sagemaker-runtime against a router: only the endpoint URL is changed."""

import json

import boto3
import botocore
import pytest
from botocore.config import Config
from botocore.exceptions import EventStreamError

from cluster import BACKEND, ROOT

QUESTION = {"messages": [{"role": "user", "content": "Why is the sky blue?"}], "max_tokens": 6}


def connect(**config):
    return boto3.client(
        "sagemaker-runtime",
        endpoint_url=ROOT,
        region_name="us-west-2",
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="secret",
        config=Config(retries={"total_max_attempts": 1}, **config),
    )


@pytest.fixture(params=["signed", "anonymous"], scope="module")
def client(request):
    return connect(**({"signature_version": botocore.UNSIGNED} if request.param == "anonymous" else {}))


def body(**fields):
    return json.dumps(QUESTION | fields).encode()


@pytest.mark.parametrize("content_type", [None, "application/json", "application/octet-stream"])
def test_invoke(client, content_type):
    kind = {"ContentType": content_type} if content_type else {}
    answer = client.invoke_endpoint(EndpointName="demo", Body=body(), **kind)
    chat = json.loads(answer["Body"].read())
    assert chat["usage"]["completion_tokens"] == 6
    assert answer["ContentType"] == "application/json"
    assert answer["InvokedProductionVariant"] == "main"
    assert answer["ResponseMetadata"]["RequestId"]


def test_invoke_stream(client):
    whole = json.loads(client.invoke_endpoint(EndpointName="demo", Body=body())["Body"].read())
    answer = client.invoke_endpoint_with_response_stream(
        EndpointName="demo", ContentType="application/json", Body=body(stream=True)
    )
    assert answer["ContentType"].startswith("text/event-stream")
    parts = [e["PayloadPart"]["Bytes"] for e in answer["Body"]]
    events = b"".join(parts).decode().strip().split("\n\n")
    assert events[-1] == "data: [DONE]"
    chunks = [json.loads(e.removeprefix("data: ")) for e in events[:-1]]
    text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks)
    assert text == whole["choices"][0]["message"]["content"]
    assert len(parts) > 1


@pytest.mark.parametrize("operation", ["invoke_endpoint", "invoke_endpoint_with_response_stream"])
def test_unknown_endpoint(client, operation):
    with pytest.raises(client.exceptions.ValidationError) as failure:
        getattr(client, operation)(EndpointName="nobody", Body=body())
    assert failure.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert "nobody" in failure.value.response["Error"]["Message"]


@pytest.mark.parametrize("operation", ["invoke_endpoint", "invoke_endpoint_with_response_stream"])
@pytest.mark.parametrize(("endpoint", "status"), [("busy", 429), ("failing", 500)])
def test_model_error(client, operation, endpoint, status):
    with pytest.raises(client.exceptions.ModelError) as failure:
        getattr(client, operation)(EndpointName=endpoint, Body=body())
    assert failure.value.response["ResponseMetadata"]["HTTPStatusCode"] == 424
    assert failure.value.response["OriginalStatusCode"] == status
    assert "(fault)" in failure.value.response["OriginalMessage"]


def test_body_that_the_model_refuses(client):
    with pytest.raises(client.exceptions.ModelError) as failure:
        client.invoke_endpoint(EndpointName="demo", ContentType="application/json", Body=b"{")
    assert failure.value.response["OriginalStatusCode"] == 400


def test_model_dies_mid_stream(client):
    answer = client.invoke_endpoint_with_response_stream(EndpointName="dying", Body=body(stream=True))
    with pytest.raises(EventStreamError) as failure:
        for event in answer["Body"]:
            assert event["PayloadPart"]["Bytes"]
    assert failure.value.response["Error"]["Code"] == "ModelStreamError"


def test_prefix_affinity(client):
    def ask(question, identity):
        answer = client.invoke_endpoint(
            EndpointName="demo",
            ContentType="application/json",
            PrefixAwareId=identity,
            Body=json.dumps({"prompt": f"{identity} answers in verse. " * 300 + question, "max_tokens": 4}).encode(),
        )
        usage = json.loads(answer["Body"].read())["usage"]
        return answer["ResponseMetadata"]["HTTPHeaders"][BACKEND], usage

    identity = f"application-{client.meta.config.signature_version}"
    first, _ = ask("Why is the sky blue?", identity)
    second, usage = ask("How deep is the sea?", identity)
    assert first == second
    assert usage["prompt_tokens_details"]["cached_tokens"] > usage["prompt_tokens"] * 0.9
