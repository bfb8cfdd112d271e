#!/bin/bash
# Run in site-packages: the modules find the libraries of the environment, and those in torchvision.libs. Of the toolkit and
# of glibc, the wheel has copies under other names, such as libcudart.3eda8113.so.13: the environment's are loaded instead.
# Prints the name of each file that it changed.
set -euo pipefail
shopt -s nullglob
up_to() { # <folder> <path of a file>: the way from the file's folder
  realpath --no-symlinks --relative-to "${2%/*}" "$1"
}

for file in torchvision/*.so torchvision.libs/*.so*; do
  for needed in $(patchelf --print-needed "$file"); do
    if [[ $needed =~ ^(libcudart|libnvjpeg|ld-linux-aarch64)[.-][0-9a-f]{8}(\.so\.[0-9]+) ]]; then
      patchelf --replace-needed "$needed" "${BASH_REMATCH[1]}${BASH_REMATCH[2]}" "$file"
    fi
  done
  patchelf --force-rpath --set-rpath "\$ORIGIN/$(up_to torchvision.libs "$file"):\$ORIGIN/$(up_to "$PREFIX/lib" "$file")" "$file"
  echo "$file"
done
