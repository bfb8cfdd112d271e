#!/bin/bash
# Brings the wheel of a CTK component, unpacked in the work folder, into the layout of conda packages below $PREFIX.
# scripts/ctk/package/layout.py has that layout as a table, and tests/channel/recipes/test_layout.py compares the two.
#
# CUDA_VERSION  The CTK minor, e.g. 13.4.
# PKGCONFIG     The libraries to write a .pc file for, as linkers name them (cufft cufftw); empty for none.
set -euo pipefail
shopt -s nullglob

fail() {
  echo "$1" >&2
  exit 1
}

roots=(nvidia/*/)
[[ ${#roots[@]} -eq 1 ]] || fail "expected the tree of one component below nvidia/, found: ${roots[*]:-none}"
info=(*.dist-info)
[[ ${#info[@]} -eq 1 ]] || fail "expected the metadata of one wheel, found: ${info[*]:-none}"
version=${info[0]%.dist-info}
version=${version##*-} # of the component, e.g. 13.4.92
cat ./*.dist-info/[Ll][Ii][Cc]* ./*.dist-info/licenses/* "${roots[0]}"cccl/LICENSE 2>/dev/null >LICENSE || true
[[ -s LICENSE ]] || fail "the wheel holds no licence text"

tree=$PWD/tree
mv "${roots[0]}" "$tree"
# In 13.2 CCCL's own tree has another name.
if [[ -d $tree/cuda_cccl ]]; then mv "$tree/cuda_cccl" "$tree/cccl"; fi
# Files that make the tree a Python package, its entry points for pip, and NVIDIA's records of a scan.
find "$tree" -name __init__.py -delete
rm -rf "$tree/.metadata" "$tree"/cccl/{.metadata,LICENSE} "$tree/cuda_entrypoints"
# In 12.0 the list of nvJitLink's symbols, which nothing reads.
rm -rf "$tree/res"
move() { # <file or folder>... <folder>: into a folder, which is made; nothing to move is fine
  if [[ $# -gt 1 ]]; then
    mkdir -p "${@: -1}"
    mv "$@"
  fi
}

# CUDA 13 publishes libNVVM beside the other libraries; CUDA 12 has it where programs look for it.
move "$tree"/include/nvvm.h* "$tree/nvvm/include"
# Newer CCCL has its CMake files in a tree of its own.
move "$tree"/cccl/lib/* "$tree/lib"

# Compute Sanitizer looks for its libraries beside itself. Newer wheels have all of it in one folder, as conda-forge's
# package does; older ones have its files among other components' headers and libraries.
if [[ -n $(find "$tree" -name '*sanitizer-public.*') ]]; then
  if [[ -d $tree/compute-sanitizer ]]; then
    # A script that starts it, and libraries for 32-bit programs.
    rm -rf "$tree/bin" "$tree/compute-sanitizer/x86"
  else
    rm -f "$tree/bin/libsanitizer-collection.so" # the same as in lib
    move "$tree"/bin/{x86_64,arm64}/* "$tree/bin"
    rm -rf "$tree"/bin/{x86_64,arm64}
    move "$tree"/{bin,lib}/* "$tree/include" "$tree/compute-sanitizer"
  fi
fi

linux() { # <folder below targets/>
  local target=targets/$1 file name soname full
  local there=$PREFIX/$target
  move "$tree"/lib/libnvvm.so* "$tree/nvvm/lib64"
  mkdir -p "$there" "$PREFIX/lib"
  for name in include lib; do move "$tree/$name"/* "$there/$name"; done
  for name in bin nvvm; do move "$tree/$name"/* "$PREFIX/$name"; done

  for file in "$there"/lib/*.so* "$PREFIX"/nvvm/lib64/*.so*; do
    soname=$(patchelf --print-soname "$file")
    # It becomes a file name, so it must not name a folder.
    [[ $soname == lib*.so || $soname == lib*.so.* ]] && [[ $soname != *[!A-Za-z0-9._+-]* ]] ||
      fail "$file has the SONAME '$soname'"
    # A library has the version of its component, cuFile without the fourth number; libNVVM counts for itself.
    full=${soname%%.so.*}.so.$version
    if [[ $soname == libcufile*.so.* ]]; then full=${soname%%.so.*}.so.$(cut -d. -f1-3 <<<"$version"); fi
    if [[ $soname == libnvvm.so.* ]]; then full=$soname.0.0; fi
    # CUPTI's archives count by the year (libcupti.so.2026.1.1), which its wheels do not say.
    if [[ $soname == libcupti.so.* ]]; then full=$soname; fi
    # CUPTI's helpers have no version in their names: nothing but the file itself.
    if [[ $soname == *.so ]]; then full=$soname; fi
    if [[ ${file##*/} != "$full" ]]; then mv "$file" "${file%/*}/$full"; fi
    if [[ $soname != "$full" ]]; then ln -sf "$full" "${file%/*}/$soname"; fi
    if [[ $soname == *.so.* ]]; then ln -sf "$soname" "${file%/*}/${soname%%.so.*}.so"; fi
    chmod 755 "${file%/*}/$full"
    # It calls shm_open, and does not need librt, which has that before glibc 2.34.
    if [[ $1/$soname == sbsa-linux/libcufile.so.0 && $CUDA_VERSION < 13.1 ]]; then
      patchelf --add-needed librt.so.1 "${file%/*}/$full"
    fi
    # Patching libNVVM corrupts it, and it needs nothing but glibc.
    if [[ $full != libnvvm.so.* ]]; then rpath "${file%/*}/$full" "\$ORIGIN"; fi
  done
  for file in "$there"/lib/*.so* "$there"/lib/*.a; do
    ln -s "../$target/lib/${file##*/}" "$PREFIX/lib/${file##*/}"
  done
  for file in "$there"/lib/stubs/*.so; do
    chmod 755 "$file"
    mkdir -p "$PREFIX/lib/stubs"
    ln -s "../../$target/lib/stubs/${file##*/}" "$PREFIX/lib/stubs/${file##*/}"
  done
  for file in "$PREFIX"/bin/* "$PREFIX"/nvvm/bin/*; do
    [[ $(head -c 4 "$file" 2>/dev/null | tail -c 3) == ELF ]] || continue
    chmod 755 "$file"
    if [[ $file == "$PREFIX"/bin/* ]]; then rpath "$file" "\$ORIGIN/../lib"; fi
  done

  sanitizer
  # Build systems look for the compiler and libNVVM below the target, too.
  if [[ -d $PREFIX/nvvm ]]; then ln -s ../../nvvm "$there/nvvm"; fi
  if [[ -f $PREFIX/bin/nvcc ]]; then
    # CMake before 3.28 takes TOP for the folder with include and lib. Called below the target, nvcc has no _TARGET_DIR_.
    sed -i -e 's|\$(TOP)/\$(_TARGET_DIR_)/|$(TOP)/|g' -e 's|/lib\$(_TARGET_SIZE_)|/lib|g' \
      -e '/^TOP /s|\$(_HERE_)/\.\.|&/$(_TARGET_DIR_)|' "$PREFIX/bin/nvcc.profile"
    mkdir -p "$there/bin"
    for file in "$PREFIX"/bin/*; do ln -s "../../../bin/${file##*/}" "$there/bin/"; done
  fi
  for name in ${PKGCONFIG:-}; do pkgconfig "$target" "$name"; done
}

sanitizer() { # Compute Sanitizer's folder, with links to what others use of it
  local folder=$PREFIX/compute-sanitizer file
  if [[ ! -d $tree/compute-sanitizer ]]; then return; fi
  mv "$tree/compute-sanitizer" "$folder"
  for file in "$folder"/*; do
    [[ $(head -c 4 "$file" 2>/dev/null | tail -c 3) == ELF ]] || continue
    chmod 755 "$file"
    set_rpath "$file" "\$ORIGIN:\$ORIGIN/../lib"
  done
  for file in "$folder"/*.so; do ln -s "../compute-sanitizer/${file##*/}" "$PREFIX/lib/"; done
  # The wheels of some releases lack what the program starts others with: it would end at once.
  if [[ ! -f $folder/TreeLauncherSubreaper ]]; then
    rm -f "$folder/compute-sanitizer"
  else
    mkdir -p "$PREFIX/bin"
    ln -s ../compute-sanitizer/compute-sanitizer "$PREFIX/bin/"
  fi
}

rpath() { # <ELF file> <RPATH>: sets it, unless the file finds all that it needs as NVIDIA published it
  if ! finds_all "$1"; then set_rpath "$1" "$2"; fi
}

set_rpath() { # <ELF file> <RPATH>: as RPATH: after a RUNPATH, LD_LIBRARY_PATH brings libraries of another toolkit
  patchelf --force-rpath --set-rpath "$2" "$1"
}

finds_all() { # <ELF file>: whether it needs glibc alone, opens no library of ours by its name, and looks in no odd place
  local name search
  case ${1##*/} in libcufile.so.* | libcupti.so.* | libnvrtc.* | libOpenCL.so.*) return 1 ;; esac
  search=$(patchelf --print-rpath "$1")
  if [[ $search && ($1 == *.so* || :$search: == *:[!\$]* || :$search: == *::*) ]]; then return 1; fi
  for name in $(patchelf --print-needed "$1"); do
    case $name in
      lib[cm].so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1 | libutil.so.1 | ld-linux-*.so.*) ;;
      *) return 1 ;;
    esac
  done
}

pkgconfig() { # <folder of the target> <library>
  local name=${2,,} stubs=
  # Of the driver's libraries, an environment has the stubs.
  if [[ $2 == cuda || $2 == nvidia-ml ]]; then stubs=/stubs; fi
  # The only name that NVIDIA's own .pc files do not have in lower case.
  if [[ $2 == nvToolsExt ]]; then name=$2; fi
  mkdir -p "$PREFIX/lib/pkgconfig"
  # Written relative to its own place, so that no prefix is in it.
  cat >"$PREFIX/lib/pkgconfig/$name-$CUDA_VERSION.pc" <<PC
cudaroot=\${pcfiledir}/../../$1
libdir=\${cudaroot}/lib
includedir=\${cudaroot}/include

Name: $name
Description: NVIDIA CUDA, $name
Version: $CUDA_VERSION
Libs: -L\${libdir}$stubs -l$2
Cflags: -I\${includedir}
PC
}

windows() { # <NVIDIA's name of the machine in folders>
  local library=$PREFIX/Library imports=lib/$1 file
  # The whole of 13.0.0 was once in Library/bin/x64, where nothing looks for a DLL.
  move "$tree"/bin/{x86_64,x64,arm64}/* "$tree/bin"
  rm -rf "$tree"/bin/{x86_64,x64,arm64}
  move "$tree"/bin/nvvm64*.dll "$tree/nvvm/bin"
  mkdir -p "$library/lib"
  if [[ -d $tree/lib/cmake ]]; then
    move "$tree/lib/cmake" "$library/$imports"
    # conda-forge's own cccl package has Library/include/cccl; tools look below targets/x64 on ARM, too.
    move "$tree"/include/* "$library/include/targets/x64"
    sed -i -e 's|"\.\./\.\./\.\./"|"../../../../"|' -e 's|}/include|}/include/targets/x64|' \
      "$library/$imports"/cmake/*/*-header-search.cmake
  fi
  if [[ -d $tree/include/nvtx3 ]]; then move "$tree"/include/* "$library/include/targets/x64"; fi
  if [[ -d $tree/compute-sanitizer ]]; then mv "$tree/compute-sanitizer" "$library/"; fi
  if [[ -f $library/compute-sanitizer/compute-sanitizer.exe ]]; then
    mkdir -p "$PREFIX/Scripts"
    printf '%s\r\n' '@"%~dp0..\Library\compute-sanitizer\compute-sanitizer.exe" %*' \
      >"$PREFIX/Scripts/compute-sanitizer.bat"
  fi
  # nvcc looks where the wheels of CCCL and NVTX have their headers, and not for other packages' import libraries.
  if [[ -f $tree/bin/nvcc.profile ]]; then
    sed -i -e 's|"-I$(TOP)/include/cccl"|"-I$(TOP)/include/targets/x64/cccl" "-I$(TOP)/include/targets/x64"|' \
      -e 's|"/LIBPATH:$(TOP)/lib/$(_WIN_PLATFORM_)"|& "/LIBPATH:$(TOP)/lib"|' "$tree/bin/nvcc.profile"
  fi
  # CUDA 12 has its import libraries where linkers look by default, CUDA 13 one folder for each machine.
  if [[ $CUDA_VERSION == 12.* ]]; then imports=lib; fi
  move "$tree/lib/$1"/* "$library/$imports"
  for file in bin include nvvm; do move "$tree/$file"/* "$library/$file"; done
}

for entry in "$tree"/*; do
  case ${entry##*/} in
    bin | include | lib | nvvm | cccl | compute-sanitizer) ;;
    *) fail "no place is known for ${entry##*/}" ;;
  esac
done
case $target_platform in
  linux-64) linux x86_64-linux ;;
  linux-aarch64) linux sbsa-linux ;;
  win-64) windows x64 ;;
  win-arm64) windows arm64 ;;
  *) fail "no layout is known for $target_platform" ;;
esac
rm -rf "$tree"
