#!/bin/bash
# Run in site-packages, without NVIDIA's files of the wheel: links to those of the environment, where triton looks.
set -euo pipefail
case $target_platform in
  linux-64) target=x86_64-linux ;;
  linux-aarch64) target=sbsa-linux ;;
esac

nvidia=triton/backends/nvidia
link() { # <path in the environment> <path in site-packages>
  mkdir -p "${2%/*}"
  ln -s "$(realpath --no-symlinks --relative-to "$PWD/${2%/*}" "$PREFIX/$1")" "$2"
}

# ptxas-blackwell is for GPUs from 10.0 on: a newer version, where the wheel's own ptxas does not know them.
for name in ptxas ptxas-blackwell; do link bin/ptxas $nvidia/bin/$name; done
link "targets/$target/include" $nvidia/include
link nvvm/libdevice/libdevice.10.bc $nvidia/lib/libdevice.10.bc
# Proton, the profiler, opens it by this name.
for folder in cupti cupti-blackwell; do link "lib/libcupti.so.$CUDA_MAJOR" $nvidia/lib/$folder/libcupti.so; done
