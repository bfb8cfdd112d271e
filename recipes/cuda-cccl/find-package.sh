#!/bin/bash
# Has CMake's find_package find CCCL, Thrust, CUB and libcu++ in an environment that is not activated. Their CMake files are
# below the target, where CMake does not look; small ones in share/cmake read these. In lib/cmake, conda-forge's package
# cccl has its own, which CMake takes first.
set -euo pipefail
shopt -s nullglob

root=$PREFIX
if [[ $target_platform == win-* ]]; then root=$PREFIX/Library; fi
folders=("$root"/targets/*/lib/cmake/*/ "$root"/lib/*/cmake/*/)
[[ ${#folders[@]} -gt 0 ]] || { echo "CCCL has no CMake files" >&2 && exit 1; }
for folder in "${folders[@]}"; do
  name=$(basename "$folder")
  mkdir -p "$root/share/cmake/$name"
  for file in "$folder$name"-config.cmake "$folder$name"-config-version.cmake; do
    # shellcheck disable=SC2016 # CMake reads the variable
    printf 'include("${CMAKE_CURRENT_LIST_DIR}/../../../%s")\n' "${file#"$root"/}" \
      >"$root/share/cmake/$name/${file##*/}"
  done
done
