package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// run makes the samples of a run of the race R in which the limit takes the given times in its laps, and ours so many
// times as long.
func run(t *testing.T, unit string, limit, times []float64) Samples {
	t.Helper()
	ours := make([]float64, len(limit))
	for i := range ours {
		ours[i] = limit[i] * times[i]
	}
	var text bytes.Buffer
	if err := Record(&text, "R", []Result{laps("ours", unit, ours...), laps("limit", unit, limit...)}); err != nil {
		t.Fatal(err)
	}
	samples, err := ReadSamples(&text)
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

func TestCompareRunsComparesRatiosNotTimes(t *testing.T) {
	quiet, loaded := []float64{10, 11, 10}, []float64{40, 90, 55}
	usual := []float64{2, 2.1, 1.9}
	for _, c := range []struct {
		name, unit   string
		limit, times []float64
		want         string
	}{
		{"the machine was slower", "ns", loaded, usual, "same"},
		{"ours was slower", "ns", quiet, []float64{2.4, 2.3, 2.5}, "slower"},
		{"one lap as before", "ns", quiet, []float64{2.4, 2.05, 2.5}, "same"},
		{"less than a twentieth", "ns", quiet, []float64{2.08, 2.09, 2.08}, "same"},
		{"fewer a second", "events/s", quiet, []float64{1.5, 1.4, 1.6}, "slower"},
		{"more a second", "events/s", quiet, []float64{2.5, 2.4, 2.6}, "faster"},
		{"memory is no ratio", "B/event", loaded, usual, "slower"},
	} {
		t.Run(c.name, func(t *testing.T) {
			races := []Race{{Name: "R", Rows: []Row{
				{Target: "P1", Unit: c.unit, Ours: "ours", Limit: "limit"},
				{Target: "P2", Unit: c.unit, Ours: "new", Limit: "limit"},
			}}}
			list := CompareRuns(races, run(t, c.unit, quiet, usual), run(t, c.unit, c.limit, c.times))
			if len(list) != 1 || list[0].Target != "P1" || list[0].Verdict() != c.want {
				t.Errorf("%+v, want one row that is %s", list, c.want)
			}
			if got := len(Slower(list)); (got == 1) != (c.want == "slower") {
				t.Errorf("%d slower rows", got)
			}
		})
	}
}

func TestRowsThatCannotBeComparedAreTold(t *testing.T) {
	races := []Race{{Name: "R", Rows: []Row{
		{Target: "compared", Unit: "ns", Ours: "ours", Limit: "limit"},
		{Target: "without a limit", Unit: "ns", Ours: "ours"},
		{Target: "memory", Unit: "B/event", Ours: "ours"},
		{Target: "new", Unit: "events/s", Ours: "ours", Limit: "limit"},
		{Target: "not measured", Unit: "ns", Ours: "absent", Limit: "limit"},
	}}}
	both := Samples{
		"BenchmarkR/ours":  {"ns": {2, 3}, "B/event": {7}},
		"BenchmarkR/limit": {"ns": {1, 1}, "events/s": {5}},
	}
	after := Samples{
		"BenchmarkR/ours":  {"ns": {2, 3}, "B/event": {7}, "events/s": {4}},
		"BenchmarkR/limit": {"ns": {1, 1}, "events/s": {5}},
	}
	var got []string
	for _, row := range NotCompared(races, both, after) {
		got = append(got, row.Target)
	}
	if want := []string{"without a limit", "new"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if n := len(CompareRuns(races, both, after)); n != 2 {
		t.Errorf("%d rows are compared", n)
	}
}

func TestBothKeepsRowsThatWereSlowerTwice(t *testing.T) {
	a := []Comparison{{Target: "P1", What: "one"}, {Target: "P1", What: "two"}}
	b := []Comparison{{Target: "P1", What: "two"}, {Target: "P2", What: "one"}}
	if got := Both(a, b); len(got) != 1 || got[0].What != "two" {
		t.Errorf("%v", got)
	}
}

func TestLastResultsAreThoseOfTheSameMachine(t *testing.T) {
	dir := t.TempDir()
	const line = "\nBenchmarkR/ours 1 7 ns\n"
	for name, text := range map[string]string{
		"20260101-a.txt":         machine() + "kernel: other\n" + line,
		"20260102-b.txt":         machine() + line,
		"20260103-c.table.txt":   machine() + line,
		"20260104-d.compare.txt": machine() + line,
		"20260105-e.slower.txt":  machine() + line,
		"20260106-f.txt":         "cpu: another\n" + line,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path, samples, err := LastResults(dir)
	if err != nil || filepath.Base(path) != "20260102-b.txt" || len(samples["BenchmarkR/ours"]["ns"]) != 1 {
		t.Errorf("%s, %v, %v", path, samples, err)
	}
	if path, _, err := LastResults(t.TempDir()); path != "" || err != nil {
		t.Errorf("of nothing: %q, %v", path, err)
	}
}
