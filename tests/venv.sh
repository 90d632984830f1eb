#!/bin/sh
# Print the path of a virtual environment that holds requirements-dev.txt; make it first where it is not there.
#   tests/venv.sh CACHE_DIRECTORY
# It lies outside the checkout, keyed by the requirements and the interpreter, so that clones share it.
set -eu
cache=$1
here=$(dirname "$0")/..

say() { echo "$*" >&2; }

python=
# The distribution's first: it is built with optimization, which those of version managers mostly are not, and
# everything here is a third faster for it.
for name in /usr/bin/python3 python3 python3.13 python3.12 python3.11; do
    if command -v "$name" >/dev/null 2>&1 &&
        "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$(command -v "$name")
        break
    fi
done
if [ -z "$python" ]; then
    say "This machine has no Python >= 3.11, which ansible-core needs on the control node: install one (Debian 12 and Ubuntu 24.04 bring it; apt-get install python3 python3-venv) and run again."
    exit 1
fi

key=$( (cat "$here/requirements.txt" "$here/requirements-dev.txt"; "$python" -c 'import sys; print(sys.version, sys.base_prefix)') |
    sha256sum | cut -c1-12)
venv=$cache/venv-$key
if [ ! -e "$venv/.complete" ]; then
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
            say "Installing the package python3-venv ..."
            { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy python3-venv; } >&2
        else
            say "$python cannot make virtual environments: install python3-venv (apt-get install python3-venv) and run again."
            exit 1
        fi
    fi
    say "Installing the Python packages of requirements-dev.txt into $venv (about a minute, once) ..."
    mkdir -p "$cache"
    # --clear: what an interrupted run left behind is not trusted.
    "$python" -m venv --clear "$venv" >&2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        -r "$here/requirements-dev.txt" >&2
    touch "$venv/.complete"
fi
echo "$venv"
