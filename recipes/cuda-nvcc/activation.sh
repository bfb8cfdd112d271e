#!/bin/bash
# Puts the activation scripts where conda clients look for them. TARGET is the platform that is compiled for. On Linux, it
# also makes lib/cuda, for CUDA_HOME: the environment in the layout of NVIDIA's installer.
#
# The name begins with ~, so that the scripts come after those of the compilers, which set CXX.
set -euo pipefail

case $TARGET in
  linux-64) targets=targets/x86_64-linux cxx=g++ flags= home=/lib/cuda ;;
  linux-aarch64) targets=targets/sbsa-linux cxx=g++ flags= home=/lib/cuda ;;
  win-64) targets= cxx= flags= machine=x64 ;;
  win-arm64) targets= cxx= flags= machine=arm64 ;;
  *) echo "no activation is known for $TARGET" >&2 && exit 1 ;;
esac
if [[ $TARGET != "$target_platform" ]]; then
  # The name that Debian and Fedora give to their cross compilers.
  cxx=aarch64-linux-gnu-g++ flags="-target-dir=${targets#targets/}" home=
fi
kind=sh nvcc=bin/nvcc
if [[ $TARGET == win-* ]]; then kind=bat nvcc=Library/bin/nvcc.exe; fi

# The targets that this nvcc names: machine code for each GPU, with the features of its family (f), or of this GPU alone
# (a), where nvcc knows such a target; PTX of the newest. CMake 3.25 refuses a list with f in it. Left out are 8.7 and 8.8:
# the toolkit's own libcudadevrt.a has no code for them, so that 13.0 cannot link kernels that start kernels for them.
mapfile -t known < <(grep -aoE 'compute_[0-9]+[af]?' "$PREFIX/$nvcc" | sed 's/compute_//' | sort -Vu)
[[ ${#known[@]} -gt 0 ]] || { echo "$nvcc names no GPU" >&2 && exit 1; }
cudaarchs= gencode=
for index in "${!known[@]}"; do
  name=${known[index]} next=${known[index + 1]-}
  if [[ ${name%[af]} == "${next%[af]}" || $name == 8[78] ]]; then continue; fi
  cudaarchs+="${name%f}-real;" gencode+="-gencode arch=compute_$name,code=sm_$name "
done
newest=${name%[af]}
cudaarchs+="$newest-virtual" gencode+="-gencode arch=compute_$newest,code=compute_$newest"

if [[ ${home-} ]]; then
  # Debian has such a folder in /usr/lib/cuda. Build systems read its version (meson), or find nvcc, include and lib64.
  mkdir -p "$PREFIX$home"
  for name in bin nvvm targets; do ln -s "../../$name" "$PREFIX$home/$name"; done
  for name in include lib; do ln -s "../../$targets/$name" "$PREFIX$home/$name"; done
  ln -s lib "$PREFIX$home/lib64"
  echo "CUDA Version $PKG_VERSION" >"$PREFIX$home/version.txt"
fi

for change in activate deactivate; do
  mkdir -p "$PREFIX/etc/conda/$change.d"
  sed -e "s|@targets@|$targets|g" -e "s|@cxx@|$cxx|g" -e "s|@flags@|$flags|g" -e "s|@target_platform@|$TARGET|g" \
    -e "s|@machine@|${machine-}|g" -e "s|@home@|${home-}|g" -e "s|@cudaarchs@|$cudaarchs|g" -e "s|@gencode@|$gencode|g" \
    "$RECIPE_DIR/$change.$kind" >"$PREFIX/etc/conda/$change.d/~cuda-nvcc_$change.$kind"
done
