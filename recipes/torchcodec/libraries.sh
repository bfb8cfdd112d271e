#!/bin/bash
# Run in site-packages: the modules find the libraries of the environment, FFmpeg's too, and those in torchcodec.libs. The
# environment's nvJPEG is loaded instead of the wheel's copy. Prints the name of each file that it changed.
set -euo pipefail
shopt -s nullglob
up_to() { # <folder> <path of a file>: the way from the file's folder
  realpath --no-symlinks --relative-to "${2%/*}" "$1"
}

for file in torchcodec/*.so torchcodec.libs/*.so*; do
  for needed in $(patchelf --print-needed "$file"); do
    if [[ $needed =~ ^(libnvjpeg)[.-][0-9a-f]{8}(\.so\.[0-9]+) ]]; then
      patchelf --replace-needed "$needed" "${BASH_REMATCH[1]}${BASH_REMATCH[2]}" "$file"
    fi
  done
  patchelf --force-rpath --set-rpath "\$ORIGIN:\$ORIGIN/$(up_to torchcodec.libs "$file"):\$ORIGIN/$(up_to "$PREFIX/lib" "$file")" "$file"
  echo "$file"
done
