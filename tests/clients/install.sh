#!/usr/bin/env bash
# Install the real clients of package.json into .cache/clients (or $DRAGOMAN_CLIENTS_DIR), and link them in its bin/.
#
# The packages are the native programs themselves: nothing else is fetched and no package's script runs, so the exact
# versions in package.json are all there is to pin. 1.3 GB, about half a minute; nothing is done when it is up to date.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${DRAGOMAN_CLIENTS_DIR:-$here/../../.cache/clients}
if cmp -s "$here/package.json" "$folder/installed"; then
    exit 0
fi
command -v npm >/dev/null || { echo "make clients needs npm (Node.js 20 or newer)" >&2; exit 1; }
case "$(uname -sm)" in
    "Linux x86_64") arch=x64 opencode=opencode-linux-x64-baseline triple=x86_64-unknown-linux-musl ;;
    "Linux aarch64") arch=arm64 opencode=opencode-linux-arm64 triple=aarch64-unknown-linux-musl ;;
    *) echo "the client programs of package.json run on Linux, on x86_64 and aarch64" >&2; exit 1 ;;
esac

mkdir -p "$folder/bin"
cd "$folder"
rm -f installed
cp "$here/package.json" package.json
npm install --ignore-scripts --no-package-lock --no-audit --no-fund --loglevel=error >&2

link() { # link NAME PROGRAM
    test -x "node_modules/$2" || { echo "not installed: $2" >&2; exit 1; }
    ln -sfn "../node_modules/$2" "bin/$1"
}
link claude "@anthropic-ai/claude-code-linux-$arch/claude"
link cline "@cline/cli-linux-$arch/bin/cline"
link codex "@openai/codex-linux-$arch/vendor/$triple/bin/codex"
link opencode "$opencode/bin/opencode"
# Grok Build comes compressed; its own install script, which we do not run, would unpack it into the home folder.
node -e 'const fs = require("fs"), zlib = require("zlib"), [packed, program] = process.argv.slice(1);
    fs.writeFileSync(program, zlib.brotliDecompressSync(fs.readFileSync(packed)), { mode: 0o755 });' \
    "node_modules/@xai-official/grok-linux-$arch/bin/grok.br" bin/grok

cp package.json installed
