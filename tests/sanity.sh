#!/bin/sh
# ansible-test refuses any path but .../ansible_collections/NAMESPACE/NAME, links included: it gets a copy.
#   tests/sanity.sh CACHE_DIRECTORY
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy=$work/ansible_collections/rocknpu/edge
mkdir -p "$copy"
git ls-files -z --cached --others --exclude-standard |
    tar --null --files-from=- --create --ignore-failed-read | tar --extract --directory "$copy"
cd "$copy"
# Its own virtual environments (pylint and the like) go to the cache, not to the home directory.
HOME=$1/sanity-home ansible-test sanity --venv --color no \
    --python "$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
