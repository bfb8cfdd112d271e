#!/bin/bash
# Run in site-packages: the modules find the libraries of the environment, and each other. Prints the name of each file that
# it changed.
set -euo pipefail
shopt -s nullglob
up_to() { # <folder> <path of a file>: the way from the file's folder
  realpath --no-symlinks --relative-to "${2%/*}" "$1"
}

for file in torchaudio/lib/*.so; do
  patchelf --force-rpath --set-rpath "\$ORIGIN:\$ORIGIN/$(up_to "$PREFIX/lib" "$file")" "$file"
  echo "$file"
done
