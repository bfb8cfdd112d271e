#!/bin/bash
# Run in site-packages. What libtorch has becomes links to it; libtorch_python, which programs in C++ link to as well,
# is put beside it.
set -euo pipefail
link() { # <path in torch> <path in the environment>
  # The audit of planned packages has no headers that are deep in folders.
  if [[ ! -e torch/$1 ]]; then return; fi
  rm -r "torch/$1"
  ln -s "$(realpath --no-symlinks --relative-to "$(dirname "$PWD/torch/$1")" "$PREFIX/$2")" "torch/$1"
}

python=torch/lib/libtorch_python.so
patchelf --force-rpath --set-rpath "\$ORIGIN" $python
cp $python "$PREFIX/lib/"
for file in torch/lib/*.so*; do
  name=${file##*/}
  # It is the only one that torch opens by its path, and its RPATH is right there.
  if [[ $name == libtorch_global_deps.so ]]; then continue; fi
  link "lib/$name" "lib/$name"
  echo "$file"
done
link bin/torch_shm_manager bin/torch_shm_manager
echo torch/bin/torch_shm_manager
for folder in ATen c10 caffe2 tensorpipe torch; do link "include/$folder" "include/$folder"; done
for folder in torch/share/cmake/*; do link "share/cmake/${folder##*/}" "share/cmake/${folder##*/}"; done
echo torch/share/cmake/ATen/ATenConfig.cmake
