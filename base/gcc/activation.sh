#!/bin/bash
# Puts the activation scripts of a compiler where conda clients look for them.
#
# PACKAGE  gcc_<subdir> or gxx_<subdir>: what it stands for. The subdir is the platform that is compiled for.
#
# Names and flags are those of conda-forge's compilers (ctng-compiler-activation-feedstock and binutils-feedstock, 2026),
# as far as this machine has the program and its compiler takes the flag. Left out is what names conda-forge's sysroot:
# CONDA_BUILD_SYSROOT, and CMake's search in sysroots alone.
set -euo pipefail

subdir=${PACKAGE#*_} cross='' chip=
if [[ $subdir != "$target_platform" ]]; then cross=aarch64-linux-gnu-; fi
if [[ $cross && $subdir == linux-64 ]]; then cross=x86_64-linux-gnu-; fi
cc=${cross}gcc cxx=${cross}g++
host=$($cxx -dumpmachine) build=$(g++ -dumpmachine)

optimized=-O3 sections=
if [[ $subdir == linux-64 ]]; then
  chip="-march=nocona -mtune=haswell" optimized=-O2 sections=-ffunction-sections
fi
shared="$chip -ftree-vectorize -fPIC -fno-plt $sections -pipe"
cpp="-DNDEBUG -D_FORTIFY_SOURCE=2 -O2" debug_cpp="-D_DEBUG -D_FORTIFY_SOURCE=2 -Og"
c="$shared -fstack-protector-strong $optimized"
debug_c="$shared -fstack-protector-all -Og -g -Wall -Wextra -fvar-tracking-assignments"
in_cxx="-fvisibility-inlines-hidden -fmessage-length=0"
linked="-Wl,-O2 -Wl,--sort-common -Wl,--as-needed -Wl,-z,relro -Wl,-z,now"
if [[ $subdir == linux-64 ]]; then linked+=" -Wl,--disable-new-dtags -Wl,--gc-sections"; fi
linked+=" -Wl,--allow-shlib-undefined"

program() { command -v "$cross$1" >/dev/null; }
accepted() { # <language> <flags>: those with which the compiler makes a shared library, and warns of nothing
  local flag taken='' compiler=$cc
  if [[ $1 == c++ ]]; then compiler=$cxx; fi
  for flag in $2; do
    if echo "int one;" | "$compiler" -Werror -fPIC -shared -x "$1" - "$flag" -o /dev/null 2>/dev/null; then
      taken+="${taken:+ }$flag"
    fi
  done
  echo "$taken"
}

settings='' names=
put() { # <variable> <value> [before [<separator>]]: the value is read by the shell that is activated
  settings+="  _@id@_${3-set} $1 \"$2\"${4+ \"$4\"}"$'\n'
  names+="${names:+ }$1"
}
flags() { # <variable> <flags>
  put "$1" "$2" before
}

if [[ $PACKAGE == gcc_* ]]; then
  for tool in addr2line ar as c++filt elfedit gprof ld nm objcopy objdump ranlib readelf size strings strip; do
    variable=${tool//+/x}
    if program "$tool"; then put "${variable^^}" "$cross$tool"; fi
  done
  put CC "$cc"; put GCC "$cc"; put CC_FOR_BUILD gcc
  if program cpp; then put CPP "${cross}cpp"; put CPP_FOR_BUILD cpp; fi
  for tool in ar nm ranlib; do
    variable=gcc_$tool
    if program "gcc-$tool"; then put "${variable^^}" "${cross}gcc-$tool"; fi
  done
  # zsh has a HOST of its own, which its prompt shows.
  settings+='  if [ -z "${ZSH_VERSION-}" ]; then _@id@_set HOST "'$host$'"; fi\n' names+=" HOST"
  put BUILD "$build"; put CONDA_TOOLCHAIN_HOST "$host"; put CONDA_TOOLCHAIN_BUILD "$build"
  put host_alias "$host"; put build_alias "$build"; put CONDA_BUILD_CROSS_COMPILATION "${cross:+1}"
  flags CPPFLAGS "$(accepted c "$cpp") \$_@id@_include"
  flags DEBUG_CPPFLAGS "$(accepted c "$debug_cpp") \$_@id@_include"
  flags CFLAGS "$(accepted c "$c") \$_@id@_include\$_@id@_map"
  flags DEBUG_CFLAGS "$(accepted c "$debug_c") \$_@id@_include\$_@id@_map"
  linked=$(accepted c "$linked")
  flags LDFLAGS "$linked \$_@id@_link"
  for_ld=${linked//-Wl,/}
  flags LDFLAGS_LD "${for_ld//,/ } \$_@id@_ld"
  put CMAKE_PREFIX_PATH "\$_@id@_prefix" before :
  put CMAKE_ARGS "\$_@id@_cmake"; put MESON_ARGS "\$_@id@_meson"
else
  put CXX "$cxx"; put GXX "$cxx"; put CXX_FOR_BUILD g++
  flags CXXFLAGS "$(accepted c++ "$in_cxx $c") \$_@id@_include\$_@id@_map"
  flags DEBUG_CXXFLAGS "$(accepted c++ "$in_cxx $debug_c") \$_@id@_include\$_@id@_map"
fi

cmake=
for tool in ar ranlib; do
  if program "$tool"; then cmake+="-DCMAKE_${tool^^}=$(command -v "$cross$tool") "; fi
  if program "gcc-$tool"; then
    for language in C CXX; do cmake+="-DCMAKE_${language}_COMPILER_${tool^^}=$(command -v "${cross}gcc-$tool") "; done
  fi
done
if program ld; then cmake+="-DCMAKE_LINKER=$(command -v "${cross}ld") "; fi
if program strip; then cmake+="-DCMAKE_STRIP=$(command -v "${cross}strip") "; fi
cmake+=-DCMAKE_BUILD_TYPE=Release
if [[ $cross ]]; then cmake+=" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=${host%%-*}"; fi

id=${PACKAGE//-/_}
native=$cxx # programs of a cross compiler have no C++ library here
if [[ $cross ]]; then native=false; fi
for change in activate deactivate; do
  mkdir -p "$PREFIX/etc/conda/$change.d"
  text=$(<"$RECIPE_DIR/$change.sh")
  text=${text//@settings@/"${settings%$'\n'}"} text=${text//@names@/"$names"} text=${text//@cmake@/"$cmake"}
  text=${text//@package@/"$PACKAGE"} text=${text//@ID@/"${id^^}"} text=${text//@native@/"$native"}
  printf '%s\n' "${text//@id@/"$id"}" >"$PREFIX/etc/conda/$change.d/$change-$PACKAGE.sh"
done
