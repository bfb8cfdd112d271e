#!/bin/bash
# Makes bin/pkg-config, where that is PROGRAM: the machine's own, which looks in the environment too, as conda-forge's
# does. What the user set comes first, what the machine has comes last.
set -euo pipefail
if [[ $PROGRAM != pkg-config ]]; then exit 0; fi
mkdir -p "$PREFIX/bin"
cat >"$PREFIX/bin/pkg-config" <<SCRIPT
#!/bin/sh
PKG_CONFIG_PATH="\${PKG_CONFIG_PATH:+\$PKG_CONFIG_PATH:}$PREFIX/lib/pkgconfig:$PREFIX/share/pkgconfig" \\
  exec $(command -v pkg-config) "\$@"
SCRIPT
chmod 755 "$PREFIX/bin/pkg-config"
