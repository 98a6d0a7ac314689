#!/bin/bash
# Castor is installed from what Bazel has built, and a program outside of the tree is
# compiled against it: the quick part of tools/check_library.sh.
set -euo pipefail

readonly kShared="$(readlink -f "$1")"
# The whole tree: what is installed is found in it.
readonly kRoot="$(dirname "$(dirname "$(readlink -f tests/library_test.sh)")")"
exec "${kRoot}/tools/check_library.sh" --quick --from "${kShared%/library/*}"
