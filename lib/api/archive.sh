#!/bin/sh
# archive.sh OBJCOPY NM AR OBJECT ARCHIVE: the archive of one object, in which only what anello.map names can be seen.
set -e
objcopy=$1 nm=$2 ar=$3 object=$4 archive=$5
shown="$object.shown.o"
# What is unique in a process (STB_GNU_UNIQUE, nm's u) can be hidden only after it is weak. The rest must not become weak: what is
# undefined would no longer be looked for.
"$nm" "$object" | sed -n 's/^[0-9a-f]* u //p' >"$object.unique"
"$objcopy" --weaken-symbols="$object.unique" "$object" "$shown"
"$objcopy" --wildcard --keep-global-symbol='anello_*' "$shown"
rm -f "$archive"
"$ar" crD "$archive" "$shown"
rm "$shown" "$object.unique"
