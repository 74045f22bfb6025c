#!/bin/sh
# Installs reprise from the files of a release:
#
#     sh install.sh [--from URL] [--signer KEY] [--to DIR]
#
# URL is the folder of the release, KEY the public key that has signed it ("ssh-ed25519 AAAA..."), DIR where the programs go:
# /usr/local/bin for root, else ~/.local/bin. Nothing is installed whose signature or checksum is wrong. It needs curl,
# ssh-keygen (OpenSSH 8.1 or newer), sha256sum or shasum, and tar.
set -eu

from='@DOWNLOAD_URL@' signer='@SIGNER@' to=
fail() { echo "install.sh: $*" >&2; exit 1; }

main() {
  case $from in @*) from= ;; esac
  case $signer in @*) signer= ;; esac
  while [ $# -gt 0 ]; do
    [ $# -gt 1 ] || fail "$1 needs a value"
    case $1 in
      --from) from=${2%/} ;;
      --signer) signer=$2 ;;
      --to) to=$2 ;;
      *) fail "unknown option $1" ;;
    esac
    shift 2
  done
  [ -n "$from" ] || fail "where is the release? --from URL"
  [ -n "$signer" ] || fail "who has signed it? --signer 'ssh-ed25519 AAAA...'"
  if [ -z "$to" ]; then
    if [ "$(id -u)" = 0 ]; then to=/usr/local/bin; else to=$HOME/.local/bin; fi
  fi
  for program in curl ssh-keygen tar; do
    command -v $program >/dev/null || fail "there is no $program"
  done
  case $(uname -s) in Linux) os=linux ;; Darwin) os=darwin ;; *) fail "there is no release for $(uname -s)" ;; esac
  case $(uname -m) in
    x86_64 | amd64) arch=amd64 ;;
    aarch64 | arm64) arch=arm64 ;;
    *) fail "there is no release for $(uname -m)" ;;
  esac

  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  get SHA256SUMS
  get SHA256SUMS.sig
  echo "reprise-release $signer" >"$work/signers"
  ssh-keygen -Y verify -f "$work/signers" -I reprise-release -n reprise-release -s "$work/SHA256SUMS.sig" \
    <"$work/SHA256SUMS" >/dev/null || fail "the signature of the release is not by that key"

  archive=$(sed -n "s|^[0-9a-f]\{64\}  \./\(reprise_[A-Za-z0-9._-]*_${os}_$arch\.tar\.gz\)\$|\1|p" "$work/SHA256SUMS")
  case $archive in '') fail "the release has nothing for $os/$arch" ;; *[!A-Za-z0-9._-]*) fail "the release is ambiguous" ;; esac
  get "$archive"
  (cd "$work" && grep "  ./$archive\$" SHA256SUMS | sum) >/dev/null || fail "the checksum of $archive is wrong"

  tar -xzf "$work/$archive" -C "$work"
  mkdir -p "$to"
  for program in reprise reprise-archive; do # at once, and also over a program that runs
    cp "$work/${archive%.tar.gz}/$program" "$to/.$program.new"
    chmod 755 "$to/.$program.new"
    mv -f "$to/.$program.new" "$to/$program"
  done
  "$to/reprise" version
  case :$PATH: in *:"$to":*) ;; *) echo "install.sh: $to is not in PATH" ;; esac
}

get() { curl --fail --silent --show-error --location --output "$work/$1" "$from/$1" || fail "$from/$1 cannot be had"; }

sum() { if command -v sha256sum >/dev/null; then sha256sum --check -; else shasum -a 256 --check -; fi; }

main "$@" # at the end, so that half of a script does nothing
