#!/usr/bin/env bash
# The adapter for Genkit's durable streams: its own tests, in which a program with Genkit's handler is killed, and the tests that
# Genkit has for its manager in memory, run with ours in its place. Those of expiry and of closing the manager are left out:
# here the retention of the Log does the one, and there is nothing to close.
set -euo pipefail
cd "$(dirname "$0")/../../x/genkit"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

suite=$(go list -m -f '{{.Dir}}' github.com/firebase/genkit/go)/core/x/streaming/streaming_test.go
sed -e 's/^package streaming$/package genkit_test/' \
  -e 's/NewInMemoryStreamManager(\(WithTTL.*\))$/newOurs(t)/; s/NewInMemoryStreamManager()/newOurs(t)/' \
  -e 's/\bStreamEvent\(Chunk\|Done\|Error\)\b/streaming.&/g; s/\bStreamEvent\b\([^C]\)/streaming.StreamEvent\1/g' \
  -e 's#^import (#&\n\t"github.com/firebase/genkit/go/core/x/streaming"\n#' \
  -e '/^func TestInMemoryStreamManager_\(WithTTL\|Close\|CleanupExpiredStreams\|OpenStreamsNotCleanedUp\)(/,/^}/d' \
  "$suite" >"$tmp/suite_test.go"
cat >"$tmp/ours_test.go" <<'GO'
package genkit_test

import (
	"testing"

	"reprise/x/genkit"
)

// ours has the method that the tests call at their end.
type ours struct{ *genkit.Manager }

func (ours) Close() {}

func newOurs(t *testing.T) ours {
	m, _ := start(t, nil)
	return ours{m}
}
GO
printf '{"Replace": {"%s": "%s", "%s": "%s"}}' \
  "$PWD/suite_test.go" "$tmp/suite_test.go" "$PWD/ours_test.go" "$tmp/ours_test.go" >"$tmp/overlay.json"

go vet ./...
go test -race -overlay "$tmp/overlay.json" -count=1 -json . >"$tmp/out" || { cat "$tmp/out"; exit 1; }
passed() { grep -c "\"Action\":\"pass\".*\"Test\":\"Test$1\"" "$tmp/out"; }
echo "Genkit: $(passed 'InMemoryStreamManager_[A-Za-z]*') of its own tests passed, and $(passed '[A-Z][A-Za-z]*') of ours"
