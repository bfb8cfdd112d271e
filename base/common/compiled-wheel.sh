#!/bin/bash
# Installs a wheel like wheel.sh, then compiles its modules with the interpreter of this channel, which is unpacked in
# the folder `python`. Bytecode is valid by the source's hash, and names files relative to the prefix: equal bytes.
set -euo pipefail

python=$SRC_DIR/../python
mv python "$python"
bash "$RECIPE_DIR/../common/wheel.sh"

chmod +x "$python"/bin/python3.*
"$python"/bin/python3.* -I -S -B -W ignore -m compileall -q --invalidation-mode checked-hash -s "$PREFIX" \
  "$PREFIX"/lib/python3.*/site-packages
