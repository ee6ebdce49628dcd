#!/usr/bin/env bash
# Installs the Python and Node SDKs, at the versions pinned here, into
# build/conformance/{venv,node}. It does nothing for what is there already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
into=$(cd "$here/../.." && pwd)/build/conformance

# fresh STAMP FILE...: succeeds if STAMP was written for these FILEs.
fresh() {
  local stamp=$1
  shift
  [[ -f $stamp ]] && cmp -s "$stamp" <(cat "$@")
}

if ! fresh "$into/venv/.installed" "$here/python/requirements.txt"; then
  rm -rf "$into/venv"
  mkdir -p "$into"
  python3 -m venv "$into/venv"
  "$into/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$here/python/requirements.txt"
  "$into/venv/bin/pip" check
  cat "$here/python/requirements.txt" >"$into/venv/.installed"
fi

node=("$here/node/package.json" "$here/node/package-lock.json" "$here/node/.npmrc")
if ! fresh "$into/node/.installed" "${node[@]}"; then
  rm -rf "$into/node"
  mkdir -p "$into/node"
  cp "${node[@]}" "$into/node/"
  (cd "$into/node" && npm ci --loglevel=error)
  cat "${node[@]}" >"$into/node/.installed"
fi
