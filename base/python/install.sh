#!/bin/bash
# Lays out the interpreter's tree, with what a zip cannot hold: links, modes and the place of the environment.
set -euo pipefail

cp -R bin lib include "$PREFIX/"
chmod 755 "$PREFIX/bin/$FOLDER"
ln -s "$FOLDER" "$PREFIX/bin/python3"
ln -s "$FOLDER" "$PREFIX/bin/python"
find "$PREFIX/lib" -name '*.so*' -exec chmod 755 {} +
sed -i "s|@PREFIX@|$PREFIX|g" "$PREFIX/lib/$FOLDER"/_sysconfig*

# Debian's `site` looks into dist-packages, and cannot be replaced: it is frozen into the interpreter.
if grep -q dist-packages "$PREFIX/lib/$FOLDER/site.py"; then
  ln -s site-packages "$PREFIX/lib/$FOLDER/dist-packages"
fi

# Valid by the source's hash, and naming files relative to the prefix: equal bytes. What has the prefix in it is left out.
"$PREFIX/bin/$FOLDER" -I -S -B -W ignore -m compileall -q -x '/_sysconfig' --invalidation-mode checked-hash -s "$PREFIX" \
  "$PREFIX/lib/$FOLDER"
