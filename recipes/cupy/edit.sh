#!/bin/bash
# Has CuPy take the libraries of its environment, as where it is a conda package, and not advise pip for what is missing.
# Prints what it changed.
set -euo pipefail

config=cupy/.data/_wheel.json
cuda=$(sed -n 's/.*"cuda": "\([0-9]*\.x\)".*/\1/p' "$config")
[[ -n $cuda ]] || { echo "$config says no CUDA major" >&2; exit 1; }
libraries='"cutensor": {}'
if [[ $target_platform == linux-* ]]; then libraries+=', "nccl": {}'; fi
echo "{\"cuda\": \"$cuda\", \"packaging\": \"conda\", $libraries}" >"$config"
echo "$config"
