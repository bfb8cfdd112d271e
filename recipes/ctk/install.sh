#!/bin/bash
# Lays out the tool as `pip install --no-deps` would, with no Python at hand. rattler-build makes the command.
set -euo pipefail
site=$PREFIX/site-packages
info=ctk-$PKG_VERSION.dist-info
mkdir -p "$site/$info"
cp -R ctk "$site/"
find "$site" -name __pycache__ -type d -prune -exec rm -r {} +
{
  printf '%s\n' "Metadata-Version: 2.4" "Name: ctk" "Version: $PKG_VERSION"
  sed -n '/^dependencies = \[/,/^\]/s/^ *"\([^"]*\)".*/Requires-Dist: \1/p' pyproject.toml
} >"$site/$info/METADATA"
printf '[console_scripts]\nctk = ctk.cli.main:main\n' >"$site/$info/entry_points.txt"
echo conda >"$site/$info/INSTALLER"
cd "$site"
find ctk "$info" -type f | LC_ALL=C sort | sed 's/$/,,/' >"$PREFIX/record"
echo "$info/RECORD,," >>"$PREFIX/record"
mv "$PREFIX/record" "$info/RECORD"
