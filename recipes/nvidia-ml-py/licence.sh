#!/bin/bash
# The wheel has its licence in the head of pynvml.py alone: writes it into a file. Changes nothing, so it prints nothing.
set -euo pipefail

sed -n '/^# Copyright/,/^#####/{s/^# \{0,1\}//;/^####/d;p}' pynvml.py >"$SRC_DIR/LICENSE"
[[ -s $SRC_DIR/LICENSE ]] || { echo "pynvml.py begins with no licence" >&2; exit 1; }
