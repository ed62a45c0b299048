#!/usr/bin/env bash
# Fails if generated files differ from what their sources give. Usage: check.sh MAKE
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git ls-files -z | tar --null -T - -cf - | tar -xf - -C "$work"
(cd "$work" && git init -q . && git add -A && "$1" --no-print-directory generate >/dev/null)
if ! (cd "$work" && git diff --exit-code --stat); then
	echo "generated files are out of date: run make generate" >&2
	exit 1
fi
