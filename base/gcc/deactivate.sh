# Takes back what activate.sh did: each variable is what it was, empty or unset where it was so.

_@id@_deactivate() {
  # Stacked environments are left in the order in which they were entered.
  if eval "[ \"\${@ID@_PREFIX_${@ID@_LEVEL:-0}-}\" != \"\$1\" ]"; then return 0; fi
  for _@id@_name in @names@; do
    _@id@_kept=@ID@_OLD_${@ID@_LEVEL}_$_@id@_name
    # cuda-nvcc was activated later, and conda-pack does not deactivate it earlier: then it gets the old value to keep.
    _@id@_theirs=CUDA_NVCC_OLD_${CUDA_NVCC_LEVEL:-0}_$_@id@_name
    if eval "[ -n \"\${$_@id@_theirs+x}\" ] && [ \"\${CUDA_NVCC_PREFIX_${CUDA_NVCC_LEVEL:-0}-}\" = \"\$1\" ]"; then
      eval "$_@id@_theirs=\"\${$_@id@_kept-}\""
    elif eval "[ -n \"\${$_@id@_kept:-}\" ]"; then
      eval "$_@id@_name=\"\${$_@id@_kept#x}\""
    elif eval "[ -n \"\${$_@id@_kept+x}\" ]"; then
      unset -v "$_@id@_name"
    fi
    unset -v "$_@id@_kept"
  done
  unset -v "@ID@_PREFIX_$@ID@_LEVEL"
  @ID@_LEVEL=$((@ID@_LEVEL - 1))
  if [ "$@ID@_LEVEL" -eq 0 ]; then unset -v @ID@_LEVEL; fi
}

if [ -n "${CONDA_PREFIX:-}" ]; then _@id@_deactivate "$CONDA_PREFIX"; fi
unset -v _@id@_name _@id@_kept _@id@_theirs
unset -f _@id@_deactivate
