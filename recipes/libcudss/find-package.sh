#!/bin/bash
# Has CMake's find_package(cudss) find the library. NVIDIA's archives have files for that, the wheels have none: these are
# written here, with the target and the variables that NVIDIA's samples use.
set -euo pipefail

root=$PREFIX library=lib/libcudss.so
if [[ $target_platform == win-* ]]; then
  root=$PREFIX/Library
  dlls=("$root"/bin/cudss64_*.dll)
  library=bin/${dlls[0]##*/}
fi
[[ -f $root/$library ]] || { echo "$library is not there" >&2 && exit 1; }
mkdir -p "$root/lib/cmake/cudss"
cat >"$root/lib/cmake/cudss/cudss-config.cmake" <<CMAKE
get_filename_component(_cudss_root "\${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(cudss_INCLUDE_DIR "\${_cudss_root}/include")
set(cudss_LIBRARY_DIR "\${_cudss_root}/lib")
if(NOT TARGET cudss)
  add_library(cudss SHARED IMPORTED)
  set_target_properties(cudss PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "\${cudss_INCLUDE_DIR}"
    IMPORTED_LOCATION "\${_cudss_root}/$library"
    IMPORTED_IMPLIB "\${_cudss_root}/lib/cudss.lib") # of Windows; CMake reads it nowhere else
endif()
unset(_cudss_root)
CMAKE
cat >"$root/lib/cmake/cudss/cudss-config-version.cmake" <<CMAKE
set(PACKAGE_VERSION "$(cut -d. -f1-3 <<<"$PKG_VERSION")")
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
CMAKE
