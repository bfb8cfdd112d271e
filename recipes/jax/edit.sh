#!/bin/bash
# jax tells XLA where ptxas and libdevice are, and knows the folders of pip's packages only. In a conda environment they
# are in bin and nvvm, where XLA looks when it is told the environment's folder. What jax finds by itself goes first.
set -euo pipefail

file=jax/_src/lib/__init__.py
anchor='cuda_path = _cuda_path()'
if [[ $(grep --fixed-strings --line-regexp --count "$anchor" "$file") != 1 ]]; then
  echo "$file has no single line '$anchor': see how jax finds ptxas now" >&2
  exit 1
fi
sed -i "/^$anchor\$/r /dev/stdin" "$file" <<'PYTHON'
if cuda_path is None:
  import sys
  # Of the conda environment, even in a virtual environment on top of it.
  if os.path.exists(os.path.join(sys.base_prefix, 'bin', 'ptxas')):
    cuda_path = sys.base_prefix
PYTHON
echo "$file"
