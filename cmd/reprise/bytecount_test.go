package main

import "testing"

func TestByteCount(t *testing.T) {
	for text, want := range map[string]byteCount{
		"0": 0, "512": 512, "512B": 512, "1K": 1 << 10, "64MiB": 64 << 20, "2G": 2 << 30, "1TiB": 1 << 40,
	} {
		var got byteCount
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "MiB", "1.5G", "1MB", "1mib", "9999999T", "1KiBi"} {
		var got byteCount
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
	for n, want := range map[byteCount]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 64 << 20: "64.0 MiB"} {
		if got := n.String(); got != want {
			t.Errorf("%d is %q, want %q", int64(n), got, want)
		}
	}
}
