#!/bin/bash
# Installs the wheel that is unpacked in the work folder as `pip install --no-deps` would, with no Python at hand.
#
# PYTHON_TAG  The wheel's Python: cp313, cp314t ...; empty for a noarch package.
# DROP        What to leave out: paths or patterns below site-packages, e.g. cuda/core/cu12; empty for nothing.
# OWN_FOLDER  Libraries below site-packages whose RPATH becomes their own folder.
# TIDY        Libraries or patterns below site-packages whose RPATH names folders of the build machine: folders that do
#             not exist are taken out.
# IN_LIB      Libraries or patterns below site-packages whose RPATH becomes lib of the environment.
# SITE        A folder of the prefix in place of site-packages, for files that belong to no Python; else empty.
# SHARED      Libraries or patterns below site-packages that another package has, at the same paths below SHARED_SITE:
#             they become links to these. SHARED_SITE is as deep in lib as site-packages, so that $ORIGIN means the
#             same by either path.
# LINK        A script beside the recipe, run in site-packages: puts links to files of other packages in the place of the
#             wheel's own, and prints the name of each that has changed.
# EDIT        The same, for changes of texts.
set -euo pipefail

if [[ -n ${SITE:-} ]]; then
  site=$PREFIX/$SITE scripts=$PREFIX/bin up=../../..
elif [[ -z ${PYTHON_TAG:-} ]]; then
  site=$PREFIX/site-packages scripts=$PREFIX/python-scripts up=../../..
elif [[ $target_platform == win-* ]]; then
  site=$PREFIX/Lib/site-packages scripts=$PREFIX/Scripts up=../..
else
  # cp314t -> python3.14t: the free-threaded build has a library folder of its own.
  version=${PYTHON_TAG#cp3}
  site=$PREFIX/lib/python3.$version/site-packages scripts=$PREFIX/bin up=../../..
fi

if [[ -f METADATA && -f RECORD ]]; then
  # A wheel that holds nothing but metadata: rattler-build unpacks it without its only folder.
  info=$(sed -n 's|^\([^,]*\)/METADATA,.*|\1|p' RECORD)
  mkdir "$info"
  mv METADATA RECORD WHEEL licenses ./*.txt "$info/"
fi
info=$(echo ./*.dist-info)
if [[ ! -f $info/RECORD ]]; then
  echo "no unpacked wheel here: $(ls)" >&2
  exit 1
fi
info=${info#./}
data=${info%.dist-info}.data

mkdir -p "$site"
for entry in ./*; do
  # rattler-build writes its own files beside the sources; a licence text may come from elsewhere.
  case ${entry#./} in "$data" | licence | conda_build.* | build_env.*) ;; *) cp -R "$entry" "$site/" ;; esac
done

# The wheel's extra folders go where pip puts them, and RECORD says so.
record=$site/$info/RECORD
relocate() { # <kind> <destination> <destination as RECORD writes it>
  [[ -d $data/$1 ]] || return 0
  mkdir -p "$2"
  cp -R "$data/$1/." "$2/"
  sed -i "s|^$data/$1/|$3|" "$record"
}
relocate purelib "$site" ""
relocate platlib "$site" ""
relocate data "$PREFIX" "$up/"
relocate scripts "$scripts" "$up/${scripts##*/}/"
if [[ -d $data/scripts ]]; then
  for script in "$data"/scripts/*; do
    sed -i "1s|^#!python.*|#!$PREFIX/bin/python|" "$scripts/${script##*/}"
    chmod +x "$scripts/${script##*/}"
  done
fi

# The commands that pip would make. (On Windows these are programs; rattler-build makes those of noarch packages.)
if [[ -n ${PYTHON_TAG:-} && $target_platform == linux-* && -f $info/entry_points.txt ]]; then
  sed -n '/^\[console_scripts\]/,/^\[[^c]/s/^\([^ =[]*\) *= *\([^: ]*\):\([^ []*\).*/\1 \2 \3/p' "$info/entry_points.txt" |
    while read -r name module function; do
      mkdir -p "$scripts"
      printf '%s\n' "#!$PREFIX/bin/python" "import sys" "" "from $module import $function" "" "sys.exit($function())" \
        >"$scripts/$name"
      chmod +x "$scripts/$name"
      sed -i -e '$a\' "$record"
      echo "$up/bin/$name,," >>"$record"
    done
fi

(
  cd "$site"
  shopt -s nullglob # not every version has what a pattern names
  dropped_files=(${DROP:-})
  shopt -u nullglob
  for dropped in "${dropped_files[@]}"; do
    rm -r "$dropped"
    sed -i "\|^$dropped[/,]|d" "$record"
  done
  unhash() { sed -i "s|^$1,.*|$1,,|" "$record"; } # the file has changed, so its hash goes
  up_to() { # <folder> <path of a file>: the way from the file's folder
    realpath --no-symlinks --relative-to "${2%/*}" "$1"
  }
  for library in ${OWN_FOLDER:-}; do
    patchelf --force-rpath --set-rpath "\$ORIGIN" "$library"
    unhash "$library"
  done
  for library in ${TIDY:-}; do
    rpath=$(patchelf --print-rpath "$library")
    [[ -n $rpath ]] || continue
    folders=$(tr : '\n' <<<"$rpath" | while read -r folder; do
      if [[ -d ${folder/\$ORIGIN/${library%/*}} ]]; then echo "${folder%/}"; fi
    done)
    if [[ -n $folders ]]; then
      patchelf --force-rpath --set-rpath "${folders//$'\n'/:}" "$library"
    else
      patchelf --remove-rpath "$library"
    fi
    unhash "$library"
  done
  for library in ${IN_LIB:-}; do
    patchelf --force-rpath --set-rpath "\$ORIGIN/$(up_to "$PREFIX/lib" "$library")" "$library"
    unhash "$library"
  done
  for library in ${SHARED:-}; do
    ln -sf "$(up_to "$PREFIX/$SHARED_SITE" "$library")/$library" "$library"
    unhash "$library"
  done
  edited=$(for script in ${LINK:-} ${EDIT:-}; do bash "$RECIPE_DIR/$script" || exit; done)
  for changed in $edited; do
    unhash "$changed"
  done
)

# INSTALLER says that conda installed it, so that pip leaves it alone.
echo conda >"$site/$info/INSTALLER"
sed -i -e '$a\' "$record" # a last line may lack its end
echo "$info/INSTALLER,," >>"$record"
