#!/usr/bin/env bash
# Downloads a data set of the examples, and checks every file by its SHA-256:
#
#   examples/get_data.sh NAME DIR    NAME: mnist, fashion-mnist, kmnist, cifar10 or cifar100
#
# IDX files stay gzipped; archives are unpacked in DIR. Files that exist already are not fetched again.
# GET_DATA_TABLE may name a table that replaces get_data.txt, for example with the URLs of a mirror. Needs curl.
#
# The script was tested with a local server, not with the real servers. The checksums are those that other
# programs publish for these files.
set -euo pipefail
table=${GET_DATA_TABLE:-$(dirname "$0")/get_data.txt}

fail() {
  echo "get_data.sh: $*" >&2
  exit 1
}

names=$(sed -n 's/^\([a-z0-9-]*\):.*/\1/p' "$table" | tr '\n' ' ')
if [[ ${1-} == --help || ${1-} == -h ]]; then
  echo "usage: get_data.sh NAME DIR"
  echo
  echo "Downloads the data set NAME into the folder DIR, checks it by its SHA-256, and unpacks archives."
  echo "NAME is one of: ${names% }"
  exit 0
fi
(($# == 2)) || fail "write get_data.sh NAME DIR, with NAME one of: ${names% }"
name=$1 folder=$2
licence=$(sed -n "s/^$name: //p" "$table")
[[ -n $licence ]] || fail "there is no data set \"$name\"; there are: ${names% }"
command -v curl >/dev/null || fail "curl is missing: apt-get install curl"
mkdir -p "$folder" || fail "the folder $folder cannot be made"

right() { [[ -f $1 ]] && [[ $(stat -c %s "$1") == "$2" ]] && echo "$3  $1" | sha256sum --status --check; }

# fetch FILE BYTES SHA256 URL: creates FILE only when it is complete and correct.
fetch() {
  local file=$1 bytes=$2 sum=$3 url=$4
  if right "$file" "$bytes" "$sum"; then
    echo "  $file is there"
    return
  fi
  echo "  $file ($((bytes / 1000)) kB) from $url"
  # Stops if less than 1 kB/s came for a minute, or if more bytes come than the file has.
  curl --fail --location --proto '=http,https' --silent --show-error --retry 3 --connect-timeout 30 \
    --speed-limit 1000 --speed-time 60 --max-filesize "$bytes" --output "$file.part" "$url" ||
    fail "$url could not be fetched (see above); run this again, or put the file there as $file"
  if ! right "$file.part" "$bytes" "$sum"; then
    rm -f "$file.part"
    fail "$url is not the expected file: its size or SHA-256 differs from $table"
  fi
  mv "$file.part" "$file"
}

echo "$name: $licence"
while read -r row_name bytes sum url; do
  [[ $row_name == "$name" ]] || continue
  file=$folder/$(basename "$url")
  fetch "$file" "$bytes" "$sum" "$url"
  if [[ $file == *.tar.gz ]]; then tar --extract --gzip --file="$file" --directory="$folder" --no-same-owner; fi
done <"$table"
