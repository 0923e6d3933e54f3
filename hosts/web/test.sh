#!/usr/bin/env bash
# Tests the package: in Node, and in headless Chromium. The native binaries and the package (`build.sh --dev`) must have
# been built.
#
#   hosts/web/test.sh                  everything
#   hosts/web/test.sh download types   only these
#
# SmolLM2 takes part where scripts/fetch-model.sh has fetched it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

export LEAN_WEB_PACKAGES=$PWD/.cache/web
playwright=$(sed -n 's/.*"playwright-core": "\(.*\)".*/\1/p' hosts/web/package.json)
if [ "$(node -p "require('$LEAN_WEB_PACKAGES/node_modules/playwright-core/package.json').version" 2>/dev/null)" != "$playwright" ]; then
  npm install --silent --no-audit --no-fund --no-save --prefix "$LEAN_WEB_PACKAGES" "playwright-core@$playwright"
fi
# Any Chromium will do; Debian's is installed where there is none.
a_chromium() { command -v chromium || command -v google-chrome || command -v chromium-browser; }
CHROMIUM=${CHROMIUM:-$(a_chromium || { scripts/apt-install.sh chromium >&2 && a_chromium; })}
export CHROMIUM
node --test --test-timeout=600000 --test-reporter=tap $(printf "hosts/web/test/%s.test.js " ${*:-download locate site types conformance browser})
