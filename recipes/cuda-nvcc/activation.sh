#!/bin/bash
# Puts the activation scripts where conda clients look for them. TARGET is the platform that is compiled for.
#
# The name begins with ~, so that the scripts come after those of the compilers, which set CXX.
set -euo pipefail

case $TARGET in
  linux-64) targets=targets/x86_64-linux cxx=g++ flags= ;;
  linux-aarch64) targets=targets/sbsa-linux cxx=g++ flags= ;;
  win-*) targets= cxx= flags= ;;
  *) echo "no activation is known for $TARGET" >&2 && exit 1 ;;
esac
if [[ $TARGET != "$target_platform" ]]; then
  # The name that Debian and Fedora give to their cross compilers.
  cxx=aarch64-linux-gnu-g++ flags="-target-dir=${targets#targets/}"
fi
kind=sh
if [[ $TARGET == win-* ]]; then kind=bat; fi
for change in activate deactivate; do
  mkdir -p "$PREFIX/etc/conda/$change.d"
  sed -e "s|@targets@|$targets|g" -e "s|@cxx@|$cxx|g" -e "s|@flags@|$flags|g" -e "s|@target_platform@|$TARGET|g" \
    "$RECIPE_DIR/$change.$kind" >"$PREFIX/etc/conda/$change.d/~cuda-nvcc_$change.$kind"
done
