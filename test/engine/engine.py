"""One llama.cpp server with room for one prompt in its prefix cache.

Takes the model's path; prints its address as one line of JSON when it serves; ends when standard input does, so that
it never outlives the test.
"""

import json
import sys

import xllamacpp

CONTEXT_TOKENS = 1024  # of the one slot: a prompt of the test, its question and its answer

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_parallel = 1
params.n_ctx = CONTEXT_TOKENS
params.cache_ram_mib = 0  # no second cache behind the slot's
params.swa_full = True  # keep all of the sliding-window layers' keys too, else a prefix cannot be taken up again
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.n_gpu_layers = 0
params.use_jinja = False
params.chat_template = "gemma"  # one that llama.cpp knows by name; the file brings none
params.warmup = False
params.ui = False
params.verbosity = 1  # errors

server = xllamacpp.Server(params)
print(json.dumps({"url": server.listening_address, "engine": "xllamacpp " + xllamacpp.__version__}), flush=True)
sys.stdin.read()
