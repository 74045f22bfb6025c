package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reprise/bench"
)

func TestSamplesAreKeptWhateverTheirComparisonComesTo(t *testing.T) {
	for _, c := range []struct {
		name   string
		slower error
		raw    string // the ends of the names of the files
		table  string
		last   bool // whether a later run is compared with it
	}{
		{"no slower", nil, ".txt", ".table.txt", true},
		{"slower", fmt.Errorf("%w: 2 rows", bench.ErrSlower), ".slower.txt", ".slower.table.txt", false},
		{"failed", errors.New("interrupted"), ".uncompared.txt", ".uncompared.table.txt", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "results")
			var raw strings.Builder
			if err := bench.RecordMachine(&raw); err != nil {
				t.Fatal(err)
			}
			k, err := keep(dir, []byte(raw.String()), []byte("table"))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(k.raw(uncompared)); err != nil || string(got) != raw.String() {
				t.Errorf("before it is compared: %q, %v", got, err)
			}
			if err := k.compared(c.slower); !errors.Is(err, c.slower) {
				t.Errorf("%v, want %v", err, c.slower)
			}
			for file, want := range map[string]string{string(k) + c.raw: raw.String(), string(k) + c.table: "table"} {
				if got, err := os.ReadFile(file); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v", file, got, err)
				}
			}
			files, err := os.ReadDir(dir)
			if err != nil || len(files) != 2 {
				t.Errorf("%v, %v", files, err)
			}
			if path, _, err := bench.LastResults(dir); (path != "") != c.last || err != nil {
				t.Errorf("the last results are %q, %v", path, err)
			}
		})
	}
}
