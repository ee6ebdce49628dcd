"""The cluster under test, as harness_test.go builds it.

WARMRING_BASE_URL is the router, without a path. The router has an endpoint
`demo` with healthy model servers and three with one ill server each: `dying`
resets the connection after three events, `busy` answers 429 with Retry-After 7,
`failing` answers 500. A backend's id is its address.
"""

import json
import os
import time
import urllib.request

ROOT = os.environ["WARMRING_BASE_URL"].rstrip("/")

# Both ways to name an endpoint: by the body's model, and by the path.
DEMO_URLS = [ROOT + "/v1", ROOT + "/endpoints/demo/openai/v1"]

BACKEND = "x-warmring-backend"


def openai_url(endpoint):
    return f"{ROOT}/endpoints/{endpoint}/openai/v1"


def await_idle(backend, seconds=10):
    """Returns how long it took until nothing ran on the backend."""
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        with urllib.request.urlopen(f"http://{backend}/control/stats") as answer:
            stats = json.load(answer)
        if stats["running"] + stats["waiting"] == 0:
            return time.monotonic() - begin
    raise AssertionError(f"after {seconds} s there are requests on {backend}: {stats}")
