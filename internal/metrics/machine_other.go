//go:build !linux

package metrics

// Processors returns false: only Linux tells.
func Processors() (busy, idle float64, ok bool) { return 0, 0, false }

// Memory returns false: only Linux tells.
func Memory() (total, free float64, ok bool) { return 0, 0, false }
