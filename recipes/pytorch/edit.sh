#!/bin/bash
# Run in site-packages: torch is told where the packages of the environment have the toolkit.
set -euo pipefail
case $target_platform in
  linux-64) target=x86_64-linux ;;
  linux-aarch64) target=sbsa-linux ;;
esac

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
