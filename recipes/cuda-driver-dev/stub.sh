#!/bin/bash
# Brings the stub of the driver's library into the layout of conda packages below $PREFIX.
set -euo pipefail

case $target_platform in
  linux-64) target=targets/x86_64-linux ;;
  linux-aarch64) target=targets/sbsa-linux ;;
  *) echo "no layout is known for $target_platform" >&2 && exit 1 ;;
esac
mkdir -p "$PREFIX/$target/lib/stubs" "$PREFIX/lib/stubs"
mv nvidia/*/lib/stubs/libcuda.so "$PREFIX/$target/lib/stubs/"
chmod 755 "$PREFIX/$target/lib/stubs/libcuda.so"
ln -s "../../$target/lib/stubs/libcuda.so" "$PREFIX/lib/stubs/libcuda.so"
