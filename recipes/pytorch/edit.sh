#!/bin/bash
# Run in site-packages. What libtorch has becomes links to it; libtorch_python, which programs in C++ link to as well,
# is put beside it.
set -euo pipefail
case $target_platform in
  linux-64) target=x86_64-linux ;;
  linux-aarch64) target=sbsa-linux ;;
esac

link() { # <path in torch> <path in the environment>
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

# Extensions find the headers of the toolkit where its packages have them.
file=torch/utils/cpp_extension.py
line="        cuda_home_include = _join_cuda_home('include')"
[[ $(grep -cFx "$line" $file) == 1 ]] || { echo "$file does not have the line: $line" >&2; exit 1; }
sed -i "s|^$line\$|&\n        paths.append(_join_cuda_home('targets', '$target', 'include'))|" $file
echo $file

# The toolkit and NVIDIA's libraries are packages of the environment: pip would install its own beside them. The pin of
# cuda-bindings is a lower bound, as in the newer wheels.
file=$(echo torch-*.dist-info/METADATA)
sed -i -E -e '/^Requires-Dist: (nvidia-|cuda-toolkit)/d' -e 's/^(Requires-Dist: cuda-bindings)==([0-9.]+)/\1<13,>=\2/' "$file"
echo "$file"
