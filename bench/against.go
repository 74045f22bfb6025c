package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// LastResults returns the newest raw samples in dir that were measured on a machine as this one, and the name of their
// file. It returns "" if there are none. The names of the files begin with the time.
func LastResults(dir string) (path string, samples Samples, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return "", nil, err
	}
	slices.Sort(paths)
	for _, path := range slices.Backward(paths) {
		if strings.Count(filepath.Base(path), ".") > 1 { // a table, a comparison, or a run that was slower
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return "", nil, err
		}
		if !bytes.HasPrefix(text, []byte(machine())) {
			continue
		}
		samples, err := ReadSamples(bytes.NewReader(text))
		return path, samples, err
	}
	return "", nil, nil
}

// CompareRuns compares the rows of two runs that were made at different times on machines of one kind. Such a machine
// is now faster and now slower, so what is compared is ours divided by the limit of the same lap, or by the first peer
// where there is no limit. Memory does not depend on that and is compared itself.
//
// Least and Most are taken over all pairs of a lap before and a lap after, since laps of different runs are no pairs: a
// row is slower if each of its laps after is worse than each before, and the median by more than a twentieth.
// NotCompared has the rows that are left out.
func CompareRuns(races []Race, before, after Samples) []Comparison {
	var list []Comparison
	for _, race := range races {
		for _, row := range race.Rows {
			b, a := row.relative(race.Name, before), row.relative(race.Name, after)
			if len(b) == 0 || len(a) == 0 {
				continue
			}
			list = append(list, Comparison{
				Target: row.Target, What: row.What, Unit: row.Unit, Before: median(b), After: median(a),
				Ratio: median(a) / median(b), Rounds: min(len(a), len(b)),
				Least: slices.Min(a) / slices.Max(b), Most: slices.Max(a) / slices.Min(b),
			})
		}
	}
	return list
}

// NotCompared returns the rows of the run after that CompareRuns leaves out: those that have neither a limit nor a peer
// to be divided by, and those that the run before does not have.
func NotCompared(races []Race, before, after Samples) []Row {
	var list []Row
	for _, race := range races {
		for _, row := range race.Rows {
			measured := len(after["Benchmark"+race.Name+"/"+row.Ours][row.Unit]) > 0
			if measured && (len(row.relative(race.Name, before)) == 0 || len(row.relative(race.Name, after)) == 0) {
				list = append(list, row)
			}
		}
	}
	return list
}

// relative are the values of a row's laps that can be compared with those of another run.
func (row Row) relative(race string, samples Samples) []float64 {
	ours := samples["Benchmark"+race+"/"+row.Ours][row.Unit]
	if strings.HasPrefix(row.Unit, "B/") || strings.HasPrefix(row.Unit, "KiB/") {
		return ours
	}
	than := row.Limit
	if than == "" && len(row.Peers) > 0 {
		than = row.Peers[0]
	}
	base := samples["Benchmark"+race+"/"+than][row.Unit]
	var list []float64
	for i := range min(len(ours), len(base)) {
		if ratio := ours[i] / base[i]; ratio > 0 && !math.IsInf(ratio, 0) {
			list = append(list, ratio)
		}
	}
	return list
}

// ErrSlower is what a run that became slower ends with.
var ErrSlower = errors.New("slower than the last results")

// Slower returns the comparisons whose verdict is "slower".
func Slower(list []Comparison) []Comparison {
	return slices.DeleteFunc(slices.Clone(list), func(c Comparison) bool { return c.Verdict() != "slower" })
}

// Both returns the comparisons of a that are in b as well.
func Both(a, b []Comparison) []Comparison {
	return slices.DeleteFunc(slices.Clone(a), func(c Comparison) bool {
		return !slices.ContainsFunc(b, func(o Comparison) bool { return o.Target == c.Target && o.What == c.What })
	})
}

// String names the row and how it changed.
func (c Comparison) String() string {
	return fmt.Sprintf("%s %s: %s, then %s (%s)", c.Target, c.What, number(c.Before), number(c.After), c.Unit)
}
