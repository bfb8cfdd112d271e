#!/bin/bash
# Run in site-packages, for a project that extends PyTorch: its modules find the libraries of the environment and their
# own. Of the toolkit and of glibc, wheels have copies under other names, such as libcudart.3eda8113.so.13: the modules
# load the environment's in their place. Prints the name of each file that it changed.
#
# MODULES  Modules and libraries or patterns below site-packages.
set -euo pipefail
shopt -s nullglob
up_to() { # <folder> <path of a file>: the way from the file's folder
  realpath --no-symlinks --relative-to "${2%/*}" "$1"
}

for file in $MODULES; do
  rpath="\$ORIGIN"
  own=${file%%/*}.libs
  if [[ -d $own ]]; then rpath+=:\$ORIGIN/$(up_to "$own" "$file"); fi
  rpath+=:\$ORIGIN/$(up_to "$PREFIX/lib" "$file")
  for needed in $(patchelf --print-needed "$file"); do
    if [[ $needed =~ ^(libcudart|libnvjpeg|ld-linux-aarch64)[.-][0-9a-f]{8}(\.so\.[0-9]+) ]]; then
      patchelf --replace-needed "$needed" "${BASH_REMATCH[1]}${BASH_REMATCH[2]}" "$file"
    fi
  done
  patchelf --force-rpath --set-rpath "$rpath" "$file"
  echo "$file"
done
