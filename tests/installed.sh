#!/bin/sh
# Install the collection in .build/installed as a user has it, from its archive, and build what the scenarios need.
set -eu
cd "$(dirname "$0")/.."
installed=$PWD/.build/installed
rm -rf "$installed"
mkdir -p "$installed"
export ANSIBLE_COLLECTIONS_PATH=$installed
ansible-galaxy collection build --force --output-path "$installed" >/dev/null
ansible-galaxy collection install --force --offline --no-deps --collections-path "$installed" "$installed"/rocknpu-edge-*.tar.gz
# The second version is for upgrades.
for version in v1.37.2+standin2 v1.37.2+standin1; do
    PYTHONPATH=tests python3 -m virtual_edge build --k3s-version "$version"
done
