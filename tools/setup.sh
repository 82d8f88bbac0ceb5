# shellcheck shell=bash
# The common part of tools/quickstart and tools/test, to be sourced: it takes a bare Debian 12 to a build. Everything
# here may be repeated; existing parts are left alone.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# package | purpose | needed, or the feature that is left out without it
packages='
g++                    | C++20 compiler                                | needed
meson                  | configures the build                          | needed
ninja-build            | runs the build                                | needed
pkg-config             | finds the libraries below                     | needed
python3                | tests of the tools, the layer check           | needed
python3-venv           | a Python of its own for PyTorch               | the tests with PyTorch
libasio-dev            | the control connections                       | needed
libspdlog-dev          | the log                                       | needed
libfmt-dev             | the log                                       | needed
libssl-dev             | proof of the job secret (HMAC)                | needed
libcli11-dev           | command lines of the tools                    | needed
nlohmann-json3-dev     | JSON reports of the tools                     | needed
catch2                 | the test suite                                | needed
cmake                  | the test that CMake finds an installed Anello | its test
iproute2               | the tests that make networks of their own     | those tests
nftables               | the tests of firewalls between hosts          | those tests
libhwloc-dev           | the topology line of anello-info              | that line
libibverbs-dev         | lanes over InfiniBand and RoCE adapters        | those lanes
librdmacm-dev          | lanes over iWARP adapters                     | those lanes
libeigen3-dev          | matrix products of the Fashion-MNIST trainer  | the trainer
zlib1g-dev             | reads the compressed images                   | the trainer
dataset-fashion-mnist  | 60,000 images to train with                   | the trainer
clang-format-14        | the test that sources are formatted           | its test
ccache                 | builds again faster                           | used where it is installed
'

heading() { printf '\n== %s\n\n' "$*"; }
fail() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# apt_get ARGUMENTS..: runs as root, without questions, and waits for another apt to finish.
apt_get() {
  local as_root=(env)
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "needs root or sudo to install packages"
    as_root=(sudo)
  fi
  "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

row() { printf '  %-22s %-46s %s\n' "$1" "$2" "$3"; }

# One row for each kind of hardware that this version could use or does not use yet; it is never a reason to stop.
hardware_rows() {
  local gpus=0 adapters=0
  gpus=$(find /dev -maxdepth 1 -name 'nvidia[0-9]*' 2>/dev/null | wc -l)
  if [ "$gpus" -gt 0 ]; then
    row CUDA "device memory ($gpus GPUs here)" "left out: this version moves host memory only"
  else
    row CUDA "device memory" "left out: no GPU here, and not needed"
  fi
  adapters=$(find /sys/class/infiniband -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)
  if [ "$adapters" -gt 0 ]; then
    row InfiniBand "verbs ($adapters adapters here)" "used if asked for: ANELLO_TRANSPORT=shm,verbs,tcp"
  else
    row InfiniBand verbs "left out: no adapter here, and not needed"
  fi
}

# Installs the missing packages of the table above and prints the table.
install_packages() {
  command -v dpkg-query >/dev/null ||
    fail "knows how to install packages on Debian 12 only; see the list in tools/setup.sh"
  local name purpose need missing=() rows=()
  while IFS='|' read -r name purpose need; do
    name=$(xargs <<<"$name") purpose=$(xargs <<<"$purpose") need=$(xargs <<<"$need")
    [ -n "$name" ] || continue
    if ! is_installed "$name" && [ "$name" != ccache ]; then missing+=("$name"); fi
    rows+=("$name|$purpose|$need")
  done <<<"$packages"

  if [ ${#missing[@]} -gt 0 ]; then
    heading "Installing ${missing[*]}"
    apt_get update -qq || echo "apt-get update failed; is this machine on the network? Going on with what it has."
    # Installs all at once. If that fails, installs them one by one, so that an optional package does not stop the rest.
    if ! apt_get install -y -qq --no-install-recommends "${missing[@]}"; then
      for name in "${missing[@]}"; do
        apt_get install -y -qq --no-install-recommends "$name" || true
      done
    fi
  fi

  heading "What was found, and what was left out"
  local state lacking=()
  for line in "${rows[@]}"; do
    IFS='|' read -r name purpose need <<<"$line"
    if is_installed "$name"; then
      state=found
      [[ " ${missing[*]} " == *" $name "* ]] && state=installed
    elif [ "$need" = needed ]; then
      state="missing, and needed"
      lacking+=("$name")
    elif [ "$name" = ccache ]; then
      state="left out: $need"
    else
      state="left out, and with it $need: apt-get could not install it"
    fi
    row "$name" "$purpose" "$state"
  done
  hardware_rows
  [ ${#lacking[@]} -eq 0 ] || fail "cannot go on without ${lacking[*]}; apt-get's own words are above"
}

# A Python with PyTorch in build/torch-venv, for the tests that need one; they say what is missing if it is not available.
torch_environment() {
  local place=$repository/build/torch-venv
  if [ -n "${ANELLO_TEST_PYTHON:-}" ]; then return; fi
  if "$place/bin/python" -W ignore -c 'import torch, numpy, expecttest, mpi4py' 2>/dev/null; then return; fi
  heading "Installing PyTorch 2.13 for the CPU in build/torch-venv (1 GB; once)"
  local install=("$place/bin/pip" install --quiet --disable-pip-version-check --retries 1 numpy expecttest mpi4py 'setuptools>=70.1')
  # PyPI's own wheel wants CUDA's libraries; the rest comes from PyPI. Where the index is out of reach, whatever is configured
  # has the last word.
  if python3 -m venv "$place" && {
    timeout 600 "${install[@]}" --extra-index-url https://download.pytorch.org/whl/cpu 'torch==2.13.0+cpu' ||
      timeout 600 "${install[@]}" 'torch==2.13.0'
  }; then
    row PyTorch "the tests with PyTorch" "installed"
  else
    rm -rf "$place"
    row PyTorch "the tests with PyTorch" "left out: pip could not install it"
  fi
}

# The frameworks of docs/frameworks.md, beside PyTorch's environment, for the nightly test of them.
frameworks_environment() {
  local place=$repository/build/frameworks-venv torch=$repository/build/torch-venv
  if [ -n "${ANELLO_TEST_PYTHON:-}" ] || [ ! -x "$torch/bin/python" ]; then return; fi
  if [ -e "$place/complete" ]; then return; fi
  heading "Installing accelerate, DeepSpeed, Lightning, Ray and transformers in build/frameworks-venv (1 GB; once)"
  if python3 -m venv "$place" &&
    "$torch/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' \
      >"$(echo "$place"/lib/python3*/site-packages)/torch.pth" &&
    DS_BUILD_OPS=0 timeout 1200 "$place/bin/pip" install --quiet --disable-pip-version-check --retries 1 setuptools wheel \
      accelerate deepspeed lightning 'ray[train]' torchmetrics transformers; then
    touch "$place/complete"
    row frameworks "the nightly test of frameworks on PyTorch" "installed"
  else
    rm -rf "$place"
    row frameworks "the nightly test of frameworks on PyTorch" "left out: pip could not install them"
  fi
}

# The modules of Debian's kernel without which a virtual machine has neither the host's files nor RDMA devices.
machine_modules=(virtio_pci virtio_console 9p 9pnet_virtio overlay veth sch_netem crc32_generic ib_uverbs)

# kernel_parts PLACE VERSION DRIVER..: from an unpacked kernel, its image and these modules, listed in the order to load them.
kernel_parts() {
  local place=$1 version=$2 each
  shift 2
  /sbin/depmod -b "$place" "$version" && mkdir -p "$place/modules" && mv "$place/boot/vmlinuz-$version" "$place/vmlinuz" || return
  /sbin/modprobe -d "$place" -S "$version" -a --show-depends "${machine_modules[@]}" "$@" |
    awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$place/modules.paths" || return
  while read -r each; do
    case $each in
      *.xz) "$place/bin/busybox" unxz -c "$each" >"$place/modules/$(basename "$each" .xz)" ;;
      *) cp "$each" "$place/modules/" ;;
    esac || return
  done <"$place/modules.paths"
  sed 's|.*/||; s|\.xz$||' "$place/modules.paths" >"$place/modules.list"
}

# soft_iwarp PLACE IMAGE: Linux's soft iWARP (siw), which Debian's kernels leave out, for the unpacked kernel of that package,
# from Debian's source and headers of the same version.
soft_iwarp() {
  local place=$1 version=${2#linux-image-} release headers
  local series=${version%%-*}
  series=${series%.*}
  headers=$place/usr/src/linux-headers-$version
  release=$(apt-cache show --no-all-versions "$2" | sed -n 's/^Version: //p' | head -n 1)
  apt_get install -y -qq --no-install-recommends make gcc-12 libelf1 &&
    (cd "$place" && apt-get -o APT::Sandbox::User=root download -qq "linux-headers-$version" \
      "linux-headers-${version%-*}-common" "linux-kbuild-$series" "linux-source-$series=$release" &&
      for each in ./linux-headers-*.deb ./linux-kbuild-*.deb; do dpkg-deb -x "$each" . || exit; done &&
      dpkg-deb --fsys-tarfile ./linux-source-*.deb | tar -xO "./usr/src/linux-source-$series.tar.xz" |
      tar -xJ --strip-components=4 "linux-source-$series/drivers/infiniband/sw/siw") &&
    echo "include $place/usr/src/linux-headers-${version%-*}-common/Makefile" >"$headers/Makefile" &&
    make -s -C "$headers" "M=$place/siw" CONFIG_RDMA_SIW=m modules &&
    strip --strip-debug "$place/siw/siw.ko" && cp "$place/siw/siw.ko" "$place/lib/modules/$version/"
}

# virtual_machine FOLDER KERNEL DRIVER: that kernel of Debian's (a package) with that software driver of RDMA devices
# (rdma_rxe or siw) and a shell in FOLDER, for the tests that need a virtual machine (tools/rdma-vm); they say what is missing
# if it is not available.
virtual_machine() {
  local place=$repository/$1 driver=$3 drivers=("$3") name
  if [ -x "$place/busybox" ] && [ -s "$place/modules.list" ] && is_installed qemu-system-x86; then return; fi
  [ "$(uname -m)" = x86_64 ] || return 0
  heading "Fetching qemu, and Debian's $2 for virtual machines into $1 (110 MB, with siw 260 MB, at most; once)"
  apt_get update -qq
  name=$(apt-cache depends "$2" 2>/dev/null | sed -n 's/.*Depends: //p' | head -n 1)
  # Its connections are made by the connection manager.
  [ "$driver" = siw ] && drivers=(rdma_ucm siw)
  if apt_get install -y -qq --no-install-recommends qemu-system-x86 kmod && mkdir -p "$place" &&
    (cd "$place" && apt-get -o APT::Sandbox::User=root download -qq "$name" busybox-static &&
      for each in ./*.deb; do dpkg-deb -x "$each" .; done) &&
    { [ "$driver" != siw ] || soft_iwarp "$place" "$name"; } &&
    kernel_parts "$place" "${name#linux-image-}" "${drivers[@]}" && mv "$place/bin/busybox" "$place/busybox"; then
    row "qemu, $name" "the tests in a virtual machine ($driver)" "installed"
  else
    row qemu "the tests in a virtual machine ($driver)" "left out: apt-get could not install it, or it could not be built"
  fi
  rm -rf "$place"/*.deb "$place"/modules.paths "$place"/{bin,boot,lib,siw,usr}
}

# A compiler that builds fuzzers, for the nightly fuzz tests; they say what is missing if it is not available.
fuzzers() {
  if is_installed clang-14 && is_installed libclang-rt-14-dev; then return; fi
  heading "Installing clang 14 and its fuzzer (400 MB; once)"
  if apt_get update -qq && apt_get install -y -qq --no-install-recommends clang-14 libclang-rt-14-dev; then
    row clang-14 "the tests that fuzz" "installed"
  else
    row clang-14 "the tests that fuzz" "left out: apt-get could not install it"
  fi
}

# configure FOLDER OPTIONS..: once; later runs leave a configured folder as it is.
configure() {
  local folder=$1
  shift
  [ -f "$repository/$folder/build.ninja" ] && return
  heading "Configuring $folder/"
  meson setup "$repository/$folder" "$repository" "$@" || fail "meson could not configure $folder/; its words are above"
}

# build FOLDER TARGETS..: ninja shows its progress. Without targets, it builds all.
build() {
  local folder=$1
  shift
  heading "Building in $folder/"
  ninja -C "$repository/$folder" "$@" || fail "the build failed; the compiler's words are above"
}
