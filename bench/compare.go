package bench

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Samples are values by benchmark ("BenchmarkAppend/store=memory/size=200") and unit, in the order of their lines.
type Samples map[string]map[string][]float64

// ReadSamples reads what Record has written. It passes over other lines.
func ReadSamples(r io.Reader) (Samples, error) {
	samples := Samples{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || len(fields)%2 != 0 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		units := samples[fields[0]]
		if units == nil {
			units = map[string][]float64{}
			samples[fields[0]] = units
		}
		for i := 2; i < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", fields[0], err)
			}
			units[fields[i+1]] = append(units[fields[i+1]], v)
		}
	}
	return samples, lines.Err()
}

// Comparison is what one row measured of two commits, round by round.
type Comparison struct {
	Target, What, Unit string
	Before, After      float64 // medians of the rounds
	// Ratio is the median of the rounds' ratios, after divided by before. Least and Most are their bounds.
	Ratio, Least, Most float64
	Rounds             int
}

// tolerance is the share by which a median may be worse before it counts.
const tolerance = 0.05

// Verdict is "slower" or "faster" if all rounds say so and the median differs by more than a twentieth, else "same".
func (c Comparison) Verdict() string {
	least, ratio, most := c.Least, c.Ratio, c.Most
	if moreIsBetter(c.Unit) {
		least, ratio, most = 1/most, 1/ratio, 1/least
	}
	switch {
	case least > 1 && ratio > 1+tolerance:
		return "slower"
	case most < 1 && ratio < 1/(1+tolerance):
		return "faster"
	}
	return "same"
}

// Compare compares ours in each row that both commits have measured in all rounds.
func Compare(races []Race, before, after []Samples) []Comparison {
	var list []Comparison
	for _, race := range races {
		for _, row := range race.Rows {
			name := "Benchmark" + race.Name + "/" + row.Ours
			c := Comparison{Target: row.Target, What: row.What, Unit: row.Unit}
			var b, a, ratios []float64
			for i := range min(len(before), len(after)) {
				x, y := median(before[i][name][row.Unit]), median(after[i][name][row.Unit])
				if math.IsNaN(x) || math.IsNaN(y) || x == 0 {
					continue // measured by one commit alone, or a count of what must not be
				}
				b, a, ratios = append(b, x), append(a, y), append(ratios, y/x)
			}
			if len(ratios) == 0 {
				continue
			}
			c.Before, c.After, c.Ratio, c.Rounds = median(b), median(a), median(ratios), len(ratios)
			c.Least, c.Most = slices.Min(ratios), slices.Max(ratios)
			list = append(list, c)
		}
	}
	return list
}

// WriteComparison writes a table for people.
func WriteComparison(w io.Writer, list []Comparison) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "target\twhat\tunit\tbefore\tafter\tafter / before\tleast\tmost\trounds\tverdict\t")
	for _, c := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.3f\t%.3f\t%.3f\t%d\t%s\t\n", c.Target, c.What, c.Unit,
			number(c.Before), number(c.After), c.Ratio, c.Least, c.Most, c.Rounds, c.Verdict())
	}
	return t.Flush()
}
