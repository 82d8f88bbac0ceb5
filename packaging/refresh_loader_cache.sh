#!/bin/sh
# After meson install into the system's own folders: tells the loader's cache of the library, or says who has to.
PATH=$PATH:/usr/sbin:/sbin
if [ "$(id -u)" -eq 0 ]; then
  ldconfig && exit 0
  echo "ldconfig failed: programs that link with libanello start once it has run" >&2
else
  echo "Programs that link with libanello start once root has run ldconfig." >&2
fi
exit 0
