# Sets what conda-forge's @package@ sets, for the compiler of this machine that @package@ stands for.
# The shell of the user sources it, with whatever options: no command may fail outside a condition, no unset variable be
# read, and no name be left behind. deactivate.sh takes everything back.

_@id@_set() { # <variable> <value>: remembers what the variable was, and whether it was
  if eval "[ -n \"\${$1+x}\" ]"; then
    eval "export @ID@_OLD_${@ID@_LEVEL}_$1=\"x\$$1\""
    eval "$1=\"\$2\"" # not exported: a variable stays as private to the shell as its owner made it
  else
    eval "export @ID@_OLD_${@ID@_LEVEL}_$1="
    eval "export $1=\"\$2\""
  fi
}

_@id@_before() { # <variable> <text>: what the user has in it comes last, and wins
  eval "_@id@_set \"\$1\" \"\$2\${$1:+${3- }}\${$1-}\""
}

# Prints the folder of a compiler's C++ library, if that is newer than the environment's: an
# environment may come from another machine. What the compiler links needs the newer library, which
# has all that the older one has. Versions are the ends of names such as libstdc++.so.6.0.33.
_@id@_newer() { # <environment> <compiler>
  if ! _@id@_own=$(readlink -f "$1/lib/libstdc++.so.6" 2>/dev/null); then return 0; fi
  if ! _@id@_file=$("$2" -print-file-name=libstdc++.so.6 2>/dev/null); then return 0; fi
  case $_@id@_file in /*) ;; *) return 0 ;; esac
  if ! _@id@_file=$(readlink -f "$_@id@_file" 2>/dev/null); then return 0; fi
  case $_@id@_own in *.so.6.0.[0-9] | *.so.6.0.[0-9][0-9]) ;; *) return 0 ;; esac
  case $_@id@_file in *.so.6.0.[0-9] | *.so.6.0.[0-9][0-9]) ;; *) return 0 ;; esac
  if [ "${_@id@_file##*.}" -gt "${_@id@_own##*.}" ]; then
    printf '%s' "${_@id@_file%/*}"
  fi
}

_@id@_activate() {
  # Environments can be stacked. One that is on top already has all it needs.
  if eval "[ \"\${@ID@_PREFIX_${@ID@_LEVEL:-0}-}\" = \"\$1\" ]"; then return 0; fi
  export @ID@_LEVEL="$((${@ID@_LEVEL:-0} + 1))"
  eval "export @ID@_PREFIX_$@ID@_LEVEL=\"\$1\""

  _@id@_prefix=$1 _@id@_map='' _@id@_cmake="@cmake@" _@id@_meson="-Dbuildtype=release"
  if [ "${CONDA_BUILD:-0}" = 1 ]; then
    _@id@_prefix=${PREFIX-} # what is built against is in the host environment, which compilers are not part of
    _@id@_map=" -fno-merge-constants"
    if [ -n "${SRC_DIR-}" ]; then
      _@id@_map="$_@id@_map -fdebug-prefix-map=$SRC_DIR=/usr/local/src/conda/${PKG_NAME-}-${PKG_VERSION-}"
      _@id@_map="$_@id@_map -fdebug-prefix-map=$_@id@_prefix=/usr/local/src/conda-prefix"
    fi
    _@id@_cmake="$_@id@_cmake -DCMAKE_FIND_ROOT_PATH=$_@id@_prefix -DCMAKE_INSTALL_PREFIX=$_@id@_prefix"
    _@id@_cmake="$_@id@_cmake -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_PROGRAM_PATH=$1/bin;$_@id@_prefix/bin"
    if [ -f "$_@id@_prefix/bin/python" ]; then
      _@id@_cmake="$_@id@_cmake -DCMAKE_POLICY_DEFAULT_CMP0094=NEW" # the environment's Python, not a newer one
    fi
    _@id@_meson="$_@id@_meson --prefix=$_@id@_prefix -Dlibdir=lib"
  fi
  _@id@_include="-isystem $_@id@_prefix/include"
  _@id@_ld="-rpath $_@id@_prefix/lib -rpath-link $_@id@_prefix/lib -L$_@id@_prefix/lib"
  _@id@_link="-Wl,-rpath,$_@id@_prefix/lib -Wl,-rpath-link,$_@id@_prefix/lib -L$_@id@_prefix/lib"
  _@id@_runtime=''
  if [ "${CONDA_BUILD:-0}" != 1 ]; then _@id@_runtime=$(_@id@_newer "$1" @native@); fi
  if [ -n "$_@id@_runtime" ]; then
    _@id@_ld="-rpath $_@id@_runtime $_@id@_ld"
    _@id@_link="-Wl,-rpath,$_@id@_runtime $_@id@_link"
  fi
@settings@
}

if [ -n "${CONDA_PREFIX:-}" ]; then _@id@_activate "$CONDA_PREFIX"; fi
unset -v _@id@_prefix _@id@_map _@id@_cmake _@id@_meson _@id@_include _@id@_ld _@id@_link \
  _@id@_runtime
unset -f _@id@_set _@id@_before _@id@_newer _@id@_activate
