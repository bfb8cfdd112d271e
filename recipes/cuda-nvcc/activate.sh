# Puts nvcc's headers and libraries, the host compiler that it shall call, and where this toolkit is, into the variables
# of build systems.
# The shell of the user sources it, with whatever options: no command may fail outside a condition, no unset variable be
# read, and no name be left behind. deactivate.sh takes everything back.

_cuda_nvcc_set() { # <variable> <value>: remembers what the variable was, and whether it was
  if eval "[ -n \"\${$1+x}\" ]"; then
    eval "export CUDA_NVCC_OLD_${CUDA_NVCC_LEVEL}_$1=\"x\$$1\""
    eval "$1=\"\$2\"" # not exported: a variable stays as private to the shell as its owner made it
  else
    eval "export CUDA_NVCC_OLD_${CUDA_NVCC_LEVEL}_$1="
    eval "export $1=\"\$2\""
  fi
}

_cuda_nvcc_add() { # <variable> <text> [<separator>]: appends
  eval "_cuda_nvcc_set \"\$1\" \"\${$1-}\${$1:+${3- }}\$2\""
}

# Prints the folder of a compiler's C++ library, if that is newer than the environment's: an
# environment may come from another machine. What the compiler links needs the newer library, which
# has all that the older one has. Versions are the ends of names such as libstdc++.so.6.0.33.
_cuda_nvcc_newer() { # <environment> <compiler>
  if ! _cuda_nvcc_own=$(readlink -f "$1/lib/libstdc++.so.6" 2>/dev/null); then return 0; fi
  if ! _cuda_nvcc_file=$("$2" -print-file-name=libstdc++.so.6 2>/dev/null); then return 0; fi
  case $_cuda_nvcc_file in /*) ;; *) return 0 ;; esac
  if ! _cuda_nvcc_file=$(readlink -f "$_cuda_nvcc_file" 2>/dev/null); then return 0; fi
  case $_cuda_nvcc_own in *.so.6.0.[0-9] | *.so.6.0.[0-9][0-9]) ;; *) return 0 ;; esac
  case $_cuda_nvcc_file in *.so.6.0.[0-9] | *.so.6.0.[0-9][0-9]) ;; *) return 0 ;; esac
  if [ "${_cuda_nvcc_file##*.}" -gt "${_cuda_nvcc_own##*.}" ]; then
    printf '%s' "${_cuda_nvcc_file%/*}"
  fi
}

_cuda_nvcc_activate() {
  # Environments can be stacked. One that is on top already has all it needs.
  if eval "[ \"\${CUDA_NVCC_PREFIX_${CUDA_NVCC_LEVEL:-0}-}\" = \"\$1\" ]"; then return 0; fi
  export CUDA_NVCC_LEVEL="$((${CUDA_NVCC_LEVEL:-0} + 1))"
  eval "export CUDA_NVCC_PREFIX_$CUDA_NVCC_LEVEL=\"\$1\""

  _cuda_nvcc_c="-I$1/@targets@/include -I$1/@targets@/include/cccl"
  _cuda_nvcc_ld="-L$1/@targets@/lib -L$1/@targets@/lib/stubs" _cuda_nvcc_cmake="$1/@targets@" _cuda_nvcc_flags="@flags@"
  _cuda_nvcc_first='' _cuda_nvcc_compiler=${NVCC_CCBIN:-${CXX:-@cxx@}}
  if [ "${CONDA_BUILD:-0}" = 1 ]; then
    # What is built against is in the host environment, which nvcc is not part of.
    _cuda_nvcc_host_c="-I${PREFIX-}/@targets@/include"
    _cuda_nvcc_host_ld="-L${PREFIX-}/@targets@/lib -L${PREFIX-}/@targets@/lib/stubs"
    _cuda_nvcc_c="$_cuda_nvcc_host_c $_cuda_nvcc_host_c/cccl $_cuda_nvcc_c"
    _cuda_nvcc_ld="$_cuda_nvcc_host_ld $_cuda_nvcc_ld" _cuda_nvcc_cmake="${PREFIX-}/@targets@:$_cuda_nvcc_cmake"
    # Last on the command line, so that a build's own flags come before.
    _cuda_nvcc_add NVCC_APPEND_FLAGS "$_cuda_nvcc_host_c $_cuda_nvcc_host_ld"
    _cuda_nvcc_add CMAKE_ARGS "-DCMAKE_FIND_ROOT_PATH=${PREFIX-};${HOST:+$1/$HOST/sysroot;}${PREFIX-}/@targets@;$1/@targets@"
    # Every GPU that this nvcc knows, and PTX for later ones; a recipe that wants others sets them.
    if [ -z "${CUDAARCHS+x}" ]; then _cuda_nvcc_add CUDAARCHS "@cudaarchs@"; fi
    if [ -z "${NVCC_GENCODE+x}" ]; then _cuda_nvcc_add NVCC_GENCODE "@gencode@"; fi
  elif [ -z "@flags@" ]; then
    # As conda-forge's compilers have it: programs run with this environment's libraries, whatever LD_LIBRARY_PATH says.
    # CMake takes a folder with -L for one where the loader looks by itself, and writes no path of its own.
    _cuda_nvcc_ld="$_cuda_nvcc_ld -Wl,--disable-new-dtags -Wl,-rpath,$1/lib -Wl,-rpath-link,$1/lib"
    _cuda_nvcc_path=-rpath=$1/lib,-rpath-link=$1/lib
    # Of a launcher with a compiler (ccache g++), the compiler.
    if ! command -v "$_cuda_nvcc_compiler" >/dev/null 2>&1; then
      _cuda_nvcc_compiler=${_cuda_nvcc_compiler##* }
    fi
    _cuda_nvcc_runtime=$(_cuda_nvcc_newer "$1" "$_cuda_nvcc_compiler")
    if [ -n "$_cuda_nvcc_runtime" ]; then
      # Before the environment's lib, and behind its toolkit: the system may have another toolkit.
      _cuda_nvcc_first="-Wl,-rpath,$1/@targets@/lib -Wl,-rpath,$_cuda_nvcc_runtime"
      _cuda_nvcc_path=-rpath=$1/@targets@/lib,-rpath=$_cuda_nvcc_runtime,$_cuda_nvcc_path
    fi
    # nvcc does not read LDFLAGS, and conda-forge's compilers write such a path by themselves. It splits flags at spaces.
    case $_cuda_nvcc_path in
      *" "*) ;;
      *) _cuda_nvcc_flags="-Xlinker=--disable-new-dtags,$_cuda_nvcc_path" ;;
    esac
  fi
  for _cuda_nvcc_name in CFLAGS CPPFLAGS CXXFLAGS; do _cuda_nvcc_add "$_cuda_nvcc_name" "$_cuda_nvcc_c"; done
  _cuda_nvcc_ld="${LDFLAGS-}${LDFLAGS:+ }$_cuda_nvcc_ld"
  _cuda_nvcc_set LDFLAGS "$_cuda_nvcc_first${_cuda_nvcc_first:+ }$_cuda_nvcc_ld"
  # The CMake files of CCCL. After the environment, where conda-forge's cccl has newer ones.
  _cuda_nvcc_add CMAKE_PREFIX_PATH "$_cuda_nvcc_cmake" :
  # What looks for a toolkit by itself would take the one in /usr/local/cuda. Both, as some warn where they differ.
  for _cuda_nvcc_name in CUDA_PATH CUDA_HOME; do _cuda_nvcc_set "$_cuda_nvcc_name" "$1@home@"; done

  _cuda_nvcc_cxx=${CXX-}
  if [ -z "$_cuda_nvcc_cxx" ] && command -v @cxx@ >/dev/null 2>&1; then _cuda_nvcc_cxx=@cxx@; fi
  case " ${NVCC_PREPEND_FLAGS-} ${NVCC_APPEND_FLAGS-} ${NVCC_CCBIN:+-ccbin}" in
    *" -ccbin"* | *" --compiler-bindir"*) _cuda_nvcc_cxx=g++ ;; # the user has chosen
  esac
  case $_cuda_nvcc_cxx in
    "")
      echo "cuda-nvcc: nvcc needs a C++ compiler, and there is none: install gxx_@target_platform@ into this" \
        "environment or @cxx@ on this machine, or set CXX; then activate the environment again." >&2
      ;;
    g++) ;; # what nvcc calls without being told
    *" "*)
      # nvcc splits its flags at spaces. A launcher with a compiler (ccache g++) is nothing that it could call.
      if command -v "$_cuda_nvcc_cxx" >/dev/null 2>&1; then _cuda_nvcc_add NVCC_CCBIN "$_cuda_nvcc_cxx"; fi
      ;;
    *) _cuda_nvcc_flags="$_cuda_nvcc_flags${_cuda_nvcc_flags:+ }-ccbin=$_cuda_nvcc_cxx" ;;
  esac
  if [ -n "$_cuda_nvcc_flags" ]; then _cuda_nvcc_add NVCC_PREPEND_FLAGS "$_cuda_nvcc_flags"; fi
}

if [ -n "${CONDA_PREFIX:-}" ]; then _cuda_nvcc_activate "$CONDA_PREFIX"; fi
unset -v _cuda_nvcc_c _cuda_nvcc_ld _cuda_nvcc_cmake _cuda_nvcc_host_c _cuda_nvcc_host_ld _cuda_nvcc_name \
  _cuda_nvcc_cxx _cuda_nvcc_flags _cuda_nvcc_first _cuda_nvcc_compiler _cuda_nvcc_path \
  _cuda_nvcc_runtime
unset -f _cuda_nvcc_set _cuda_nvcc_add _cuda_nvcc_newer _cuda_nvcc_activate
