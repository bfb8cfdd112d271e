#!/bin/bash
# Brings the wheel of a library with a version of its own, unpacked in the work folder, into the layout of conda-forge's
# packages: lib and include below $PREFIX, below $PREFIX/Library on Windows.
#
# LIBRARY_VERSION  The version, which becomes part of the names of its files.
# AS_PUBLISHED     Not empty: no file is changed. Their own RPATH or RUNPATH is $ORIGIN, or begins with it. Either they need or
#                  open nothing that LD_LIBRARY_PATH, which the loader searches before a RUNPATH, could bring of another
#                  version, or their licence forbids changes.
# LEFT_OUT         Plugins, below lib, of programs that the channel does not have.
set -euo pipefail
shopt -s nullglob

fail() {
  echo "$1" >&2
  exit 1
}

roots=(nvidia/*/ cutenso[r]/ cuquantu[m]/)
[[ ${#roots[@]} -eq 1 ]] || fail "expected the tree of one library, found: ${roots[*]:-none}"
tree=${roots[0]%/}
cat ./*.dist-info/[Ll][Ii][Cc]* ./*.dist-info/licenses/* "$tree"/{LICENSE*,NOTICE} 2>/dev/null >LICENSE || true
[[ -s LICENSE ]] || fail "the wheel holds no licence text"
# Files that make the tree a Python package, and texts that no program reads.
find "$tree" \( -name '__init__.py' -o -name load.py \) -delete
rm -rf "$tree"/{LICENSE*,NOTICE,share,distributed_interfaces}
for file in ${LEFT_OUT:-}; do rm "$tree/lib/$file"; done

move() { # <file or folder>... <folder>: into a folder, which is made; nothing to move is fine
  if [[ $# -gt 1 ]]; then
    mkdir -p "${@: -1}"
    mv "$@"
  fi
}

linux() {
  local file soname full
  move "$tree/include"/* "$PREFIX/include"
  move "$tree"/{lib,lib64}/* "$PREFIX/lib"
  move "$tree/bin"/* "$PREFIX/bin"
  for file in "$PREFIX"/lib/*.so*; do
    soname=$(patchelf --print-soname "$file")
    # It becomes a file name, so it must not name a folder.
    [[ $soname == *.so.* && $soname != *[!A-Za-z0-9._+-]* ]] || fail "$file has the SONAME '$soname'"
    # Three numbers, as in NVIDIA's archives: by that name cuDNN looks for its parts first.
    full=${soname%%.so.*}.so.$(cut -d. -f1-3 <<<"$LIBRARY_VERSION")
    mv "$file" "$PREFIX/lib/$full"
    ln -s "$full" "$PREFIX/lib/$soname"
    ln -s "$soname" "$PREFIX/lib/${soname%%.so.*}.so"
    chmod 755 "$PREFIX/lib/$full"
    # It calls shm_open, and does not need librt, which has that before glibc 2.34.
    if [[ $soname == libcutensorMg.so.2 ]]; then patchelf --add-needed librt.so.1 "$PREFIX/lib/$full"; fi
    if [[ -n ${AS_PUBLISHED:-} ]]; then continue; fi
    # Others have an empty entry, which is the current folder; or none, and need libstdc++; or $ORIGIN/../../cublas/lib,
    # which is lib of an environment called cublas beside this one.
    patchelf --force-rpath --set-rpath "\$ORIGIN" "$PREFIX/lib/$full"
  done
  for file in "$PREFIX"/bin/*; do
    chmod 755 "$file"
    patchelf --force-rpath --set-rpath "\$ORIGIN/../lib" "$file"
  done
}

windows() {
  local library=$PREFIX/Library folder
  for folder in bin lib; do move "$tree/$folder"/x64/* "$tree/$folder"/arm64/* "$library/$folder"; done
  rm -rf "$tree"/{bin,lib}/{x64,arm64}
  for folder in bin include lib; do move "$tree/$folder"/* "$library/$folder"; done
}

case $target_platform in
  linux-*) linux ;;
  win-*) windows ;;
  *) fail "no layout is known for $target_platform" ;;
esac
left=("$tree"/*/* "$tree"/*.*)
[[ ${#left[@]} -eq 0 ]] || fail "no place is known for ${left[*]}"
