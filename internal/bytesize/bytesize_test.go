package bytesize_test

import (
	"testing"

	"reprise/internal/bytesize"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]bytesize.Size{
		"0": 0, "512": 512, "512B": 512, "1K": 1 << 10, "64MiB": 64 << 20, "2G": 2 << 30, "1TiB": 1 << 40,
	} {
		var got bytesize.Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "MiB", "1.5G", "1MB", "1mib", "9999999T", "1KiBi"} {
		var got bytesize.Size
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
	for n, want := range map[bytesize.Size]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 64 << 20: "64.0 MiB"} {
		if got := n.String(); got != want {
			t.Errorf("%d is %q, want %q", int64(n), got, want)
		}
	}
}
