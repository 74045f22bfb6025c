package mcphttp

import "slices"

// The protocol versions. They compare as strings.
const (
	version20250326 = "2025-03-26" // has batches, and no header that says the version
	version20250618 = "2025-06-18"
	version20251125 = "2025-11-25" // has priming events
	version20260728 = "2026-07-28" // has no sessions
)

// Versions are the protocol versions that a Handler serves, the newest first.
var Versions = []string{version20260728, version20251125, version20250618, version20250326}

func isVersion(v string) bool { return slices.Contains(Versions, v) }

// serves reports whether v is one of the versions of the Handler.
func (h *Handler) serves(v string) bool { return slices.Contains(h.opts.Versions, v) }

// hasSessions reports whether v begins with an initialize request.
func hasSessions(v string) bool { return v < version20260728 }
