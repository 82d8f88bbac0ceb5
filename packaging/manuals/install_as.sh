#!/bin/sh
# install_as.sh FILE FOLDER NAME: installs a file under another name, which Meson cannot do with a target's.
set -eu
case $2 in
  /*) folder=${DESTDIR:-}$2 ;;
  *) folder=$MESON_INSTALL_DESTDIR_PREFIX/$2 ;;
esac
mkdir -p "$folder"
cp "$1" "$folder/$3"
chmod 644 "$folder/$3"
