#!/bin/sh
# ansible-test refuses any path but .../ansible_collections/NAMESPACE/NAME, links included: it gets a copy.
#   tests/sanity.sh CACHE_DIRECTORY [arguments of `ansible-test sanity`]
set -eu
cd "$(dirname "$0")/.."
# ansible-test keeps its tools (pylint and the like) in the home directory: give it one in the cache.
home=$1/sanity-home
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy=$work/ansible_collections/rocknpu/edge
mkdir -p "$copy" "$home/.ansible/test/cache"
git ls-files -z --cached --others --exclude-standard |
    tar --null --files-from=- --create --ignore-failed-read | tar --extract --directory "$copy"
# It would fetch a script that installs pip from a server of its own, which not every network reaches.
pip_version=$(python3 -c '
from ansible_test._internal.python_requirements import get_venv_packages
from ansible_test._internal.host_configs import NativePythonConfig
import sys
version = "%d.%d" % sys.version_info[:2]
print(get_venv_packages(NativePythonConfig(version=version, path=sys.executable))["pip"])' 2>/dev/null || echo 24.2)
cp tests/get_pip.py "$home/.ansible/test/cache/get_pip_$(echo "$pip_version" | tr . _).py"
cd "$copy"
# The plugin's distribution, the tests and the virtual inventory are no code of Ansible's: lint checks those.
HOME=$home ansible-test sanity --color no \
    --exclude files/ --exclude inventory/ --exclude tests/ \
    --python "$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')" "$@" </dev/null
