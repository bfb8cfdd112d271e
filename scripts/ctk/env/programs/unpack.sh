#!/bin/sh
# Unpacks an environment, and runs a command in it: sh FILE --help says how. Where this text ends, the environment
# begins, so no editor should save this file.
set -u
unset CDPATH GZIP TAR_OPTIONS
self=$0
platform='@platform@' machines='@machines@' glibc='@glibc@'
kibibytes='@kibibytes@' sha256='@sha256@' skip='@skip@'
megabytes=$(((kibibytes * 1024 + 999999) / 1000000))

usage() {
  cat <<END
sh ${self##*/} DIR                    unpacks the environment into DIR, which must be new or empty
sh ${self##*/} DIR COMMAND [ARG]...   does that, and runs a command in it
sh ${self##*/} --help                 prints this

END
  cat <<'END'
@about@
END
  cat <<END

It needs Linux ($platform) with glibc $glibc or newer, $megabytes MB of disk, and sh, tar, sha256sum and
gzip. It needs no network. Beside it are a list of the packages (.lock) and one of hashes (sha256sum -c ....sha256).
END
}

fail() { # <cause> <next step>
  printf 'error: %s\nnext: %s\n' "$1" "$2" >&2
  exit 1
}

say() { printf '%s\n' "$1" >&2; }

data() { tail -c "+$skip" "$self"; }

check_tools() {
  for tool in tar sha256sum gzip; do
    command -v "$tool" >/dev/null 2>&1 || fail "this machine has no $tool, which unpacking needs" "install $tool"
  done
}

refuse_machine() {
  system=$(uname -s) machine=$(uname -m)
  [ "$system" = Linux ] || fail "this environment is for Linux ($platform), and this is $system" "unpack it on Linux"
  case " $machines " in
    *" $machine "*) ;;
    *) fail "this environment is for $platform, and this machine is $machine" \
      "pack one for it: ctk env pack --platform" ;;
  esac
  # Without getconf nothing is known, and the environment's Python says it by itself further down.
  found=$(getconf GNU_LIBC_VERSION 2>/dev/null) || found=
  case $found in
    "glibc "*) found=${found#glibc } ;;
    *)
      for library in /lib/ld-musl-*; do
        [ ! -e "$library" ] || fail "this environment needs glibc $glibc, and this system is made with musl" \
          "unpack it on a distribution with glibc"
      done
      return 0
      ;;
  esac
  minor=${found#*.}
  if [ "${found%%.*}" -lt "${glibc%%.*}" ] || { [ "${found%%.*}" = "${glibc%%.*}" ] &&
    [ "${minor%%.*}" -lt "${glibc#*.}" ]; }; then
    fail "this environment needs glibc $glibc, and this machine has $found" \
      "unpack it on a newer distribution, or pack it with a Python that is made for older ones"
  fi
}

# Sets prefix, the absolute path of DIR, and parent, the folder that it is or will be in.
find_place() {
  case $1 in
    /*) place=$1 ;;
    *) place=$PWD/$1 ;;
  esac
  if [ -d "$place" ]; then
    prefix=$(cd "$place" && pwd -P) || fail "$1 cannot be entered" "name another folder"
    [ -z "$(ls -A "$prefix")" ] || fail "there is something in $1" "name a new or empty folder"
    parent=${prefix%/*}
  elif [ -e "$place" ] || [ -L "$place" ]; then
    fail "$1 is not a folder" "name a new or empty folder"
  else
    parent=$(cd "$(dirname "$place")" 2>/dev/null && pwd -P) || fail "the folder that $1 would be in is not there, or closed" \
      "make it first, or name another"
    prefix=${parent%/}/$(basename "$place")
  fi
  # The path is written into Python files and shell scripts as it is, and into PATH.
  case $prefix$place in
    *[@breaking@[:cntrl:]]*)
      fail "$prefix has a quote, a backslash, a dollar sign, a colon or a control character in it, and would break files \
of packages" "name a folder without" ;;
  esac
  [ -w "${parent:-/}" ] || fail "${parent:-/} cannot be written" "name a folder in one that can"
}

# Prints how many KiB are free where the environment goes; nothing where that cannot be told.
free_space() {
  line=$(df -Pk "${parent:-/}" 2>/dev/null | tail -n 1)
  case $line in *%*) line=${line%%%*} ;; *) return 0 ;; esac
  last=
  for word in $line; do free=$last last=$word; done
  case $free in '' | *[!0-9]*) ;; *) printf '%s' "$free" ;; esac
}

check_space() {
  free=$(free_space)
  if [ -n "$free" ] && [ "$free" -lt "$kibibytes" ]; then
    fail "the environment needs $megabytes MB, and where $prefix would be there are $((free * 1024 / 1000000))" \
      "free some space, or name a folder on another disk"
  fi
}

check_data() {
  say "checking ${self##*/} ..."
  # Read with the shell's own word splitting: sha256sum writes the hash, two spaces and a name.
  data | sha256sum | {
    read -r hash _
    [ "$hash" = "$sha256" ]
  } || fail "$self is damaged or cut short: its sha256 is not the one it was packed with" "copy it here again"
}

# A folder of this machine that a killed run left beside DIR. Those of other machines may be at work on a shared disk.
clear_leftovers() {
  for old in "$prefix.unpacking-$(uname -n)-"*; do
    if [ -d "$old" ] && ! kill -0 "${old##*-}" 2>/dev/null; then rm -rf "$old"; fi
  done
}

unpack() {
  work=$prefix.unpacking-$(uname -n)-$$
  mkdir "$work" "$work/env" || fail "$work cannot be made" "see what mkdir says"
  trap 'rm -rf "$work"' EXIT
  for signal in HUP INT PIPE TERM; do trap 'exit 1' "$signal"; done
  say "unpacking $megabytes MB ..."
  # The status of a pipeline is that of tar, so the others leave a note. Owner and time are those of the unpacking.
  whole=yes
  { data || : >"$work/broken"; } | { gzip -d -c || : >"$work/broken"; } | tar -x -m -o -C "$work/env" -f - || whole=
  if [ "$whole" ] && [ ! -e "$work/broken" ] && [ -e "$work/env/bin/run-in-environment" ]; then return; fi
  free=$(free_space)
  [ -z "$free" ] || [ "$free" -ge 1024 ] || fail "the disk is full: no space is left where $prefix would be" \
    "free some space, or name a folder on another disk"
  fail "the environment was not unpacked; the reason is above" "fix it and run this again; nothing was left behind"
}

# What conda-unpack does, with the path that the environment will have; then that path, in one step.
settle() {
  "$work/env/bin/python" -I -B - "$work/env" "$prefix" <<'END'
@settle@
END
  case $? in
    0) ;;
    3) exit 1 ;; # it has said why
    *) fail "the environment's Python does not run here; the reason is above" \
      "choose a disk from which programs may run, and a machine of the kind that the environment is for" ;;
  esac
  rm -rf "$work"
  trap - EXIT HUP INT PIPE TERM
  # Modules are compiled here. If that fails, the environment works as well, and starts slower.
  "$prefix/bin/python" -I -S -B -W ignore - "$prefix" >/dev/null 2>&1 <<'END' || :
@bytecode@
END
}

case ${1-} in
  -h | --help) usage; exit 0 ;;
  '' | -*) usage >&2; exit 2 ;;
esac
[ -f "$self" ] || fail "this program does not find itself" "run it as a file: sh FILE DIR"
check_tools
refuse_machine
find_place "$1"
check_space
check_data
clear_leftovers
unpack
settle
if [ $# -gt 1 ]; then
  shift
  exec "$prefix/bin/run-in-environment" "$@"
fi
cat <<END
The environment is in $prefix
one command in it:     "$prefix/bin/run-in-environment" python
in bash or zsh:        . "$prefix/bin/activate"
END
exit 0
