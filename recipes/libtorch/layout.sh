#!/bin/bash
# Brings what is the same for every Python, of the unpacked wheel, into the layout of conda-forge's libtorch.
set -euo pipefail

cat torch-*.dist-info/licenses/LICENSE torch-*.dist-info/licenses/NOTICE 2>/dev/null >LICENSE || true
[[ -s LICENSE ]] || { echo "the wheel holds no licence text" >&2; exit 1; }

mkdir -p "$PREFIX"/{bin,include,lib,share/cmake}
# Of Python: the recipe pytorch. Of the compiler: packages of their own.
rm torch/lib/libtorch_python.so torch/lib/libtorch_global_deps.so torch/lib/libg*
mv torch/lib/*.so* "$PREFIX/lib/"
mv torch/bin/torch_shm_manager "$PREFIX/bin/"
# The others in that folder belong to other projects, such as pybind11.
for folder in ATen c10 caffe2 tensorpipe torch; do
  # The audit of planned packages has no headers that are deep in folders.
  if [[ -d torch/include/$folder ]]; then mv "torch/include/$folder" "$PREFIX/include/"; fi
done
mv torch/share/cmake/* "$PREFIX/share/cmake/"
# It names a folder of the machine that built the wheel.
sed -i 's|^set(ATEN_INCLUDE_DIR ".*")|set(ATEN_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/../../../include")|' \
  "$PREFIX/share/cmake/ATen/ATenConfig.cmake"

for file in "$PREFIX"/lib/*.so*; do
  chmod 755 "$file"
  # As RPATH: after a RUNPATH, LD_LIBRARY_PATH brings libraries of another toolkit.
  patchelf --force-rpath --set-rpath "\$ORIGIN" "$file"
done
chmod 755 "$PREFIX/bin/torch_shm_manager"
patchelf --force-rpath --set-rpath "\$ORIGIN/../lib" "$PREFIX/bin/torch_shm_manager"
