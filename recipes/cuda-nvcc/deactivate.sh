# Takes back what activate.sh did: each variable is what it was, empty or unset where it was so.

_cuda_nvcc_deactivate() {
  # Stacked environments are left in the order in which they were entered.
  if eval "[ \"\${CUDA_NVCC_PREFIX_${CUDA_NVCC_LEVEL:-0}-}\" != \"\$1\" ]"; then return 0; fi
  for _cuda_nvcc_name in CFLAGS CPPFLAGS CXXFLAGS LDFLAGS CMAKE_ARGS CMAKE_PREFIX_PATH CUDA_PATH CUDA_HOME CUDAARCHS \
    NVCC_GENCODE NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS NVCC_CCBIN; do
    _cuda_nvcc_kept=CUDA_NVCC_OLD_${CUDA_NVCC_LEVEL}_$_cuda_nvcc_name
    if eval "[ -n \"\${$_cuda_nvcc_kept:-}\" ]"; then
      eval "$_cuda_nvcc_name=\"\${$_cuda_nvcc_kept#x}\""
    elif eval "[ -n \"\${$_cuda_nvcc_kept+x}\" ]"; then
      unset -v "$_cuda_nvcc_name"
    fi
    unset -v "$_cuda_nvcc_kept"
  done
  unset -v "CUDA_NVCC_PREFIX_$CUDA_NVCC_LEVEL"
  CUDA_NVCC_LEVEL=$((CUDA_NVCC_LEVEL - 1))
  if [ "$CUDA_NVCC_LEVEL" -eq 0 ]; then unset -v CUDA_NVCC_LEVEL; fi
}

if [ -n "${CONDA_PREFIX:-}" ]; then _cuda_nvcc_deactivate "$CONDA_PREFIX"; fi
unset -v _cuda_nvcc_name _cuda_nvcc_kept
unset -f _cuda_nvcc_deactivate
