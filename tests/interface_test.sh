#!/bin/bash
# tools/interface.sh tells what changed in the public interface, and which of it the
# changelog does not speak of.
set -euo pipefail

readonly kProgram="$(readlink -f "$1")"
readonly kDir="$(mktemp -d "${TEST_TMPDIR:-/tmp}/interface_test.XXXXXX")"
cd "${kDir}"

cat >old <<'END'
class castor::Engine size 8 align 8
class castor::Tensor size 16 align 8
function castor::Engine::seed() const
function castor::nn::Join(int)
END
sed -e 's/size 8/size 24/' -e '/Join/d' old >new
cat >>new <<'END'
function castor::ops::Split(std::vector<int> const&)
END
LC_ALL=C sort -o new new

cat >told.md <<'END'
# Changelog
## [Unreleased]
- `Engine` knows more; `Join` has gone, and `ops::Split` is new.
## [0.1]
END
sed -e 's/`Join` has gone/it is shorter/' told.md >untold.md
echo '- `Join`' >>untold.md  # of an earlier version

cat >expected <<'END'
- class castor::Engine size 8 align 8
+ class castor::Engine size 24 align 8
- function castor::nn::Join(int)
+ function castor::ops::Split(std::vector<int> const&)
END
"${kProgram}" changes old new told.md >changes
diff <(sort expected) <(sort changes)
status=0
"${kProgram}" changes old new untold.md >changes 2>error || status=$?
[[ "${status}" -eq 1 ]]
diff <(sort expected) <(sort changes)
grep -qx 'interface: the first section of untold.md does not name Join' error
"${kProgram}" changes new new untold.md | diff - /dev/null
status=0
"${kProgram}" changes old nowhere told.md 2>error || status=$?
[[ "${status}" -eq 2 ]]
grep -q 'nowhere cannot be read' error
