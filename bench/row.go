package bench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Row is a line of the table: one target of PERFORMANCE, for one contender of a race.
type Row struct {
	// Target is "P1" to "P13", "Q1" to "Q12" for what users of the built binary get, or "C" for what is asked for
	// elsewhere.
	Target string
	What   string
	// Unit is what is compared, a key of the samples.
	Unit string
	// Ours and Limit are names of contenders; Limit may be "".
	Ours, Limit string
	// Peers are the names of contenders of others that do the same; the table has the best one that ran.
	Peers       []string
	First, Goal Bound
}

// Bound is what a measured value must hold. The zero Bound bounds nothing.
type Bound struct {
	// Than is the contender that the value is divided by; "" bounds the value itself.
	Than string
	// Unit is that of the other contender; "" for the same unit as the row.
	Unit string
	// Most and Least bound the value or the ratio, inclusive. One of them is 0 and bounds nothing.
	Most, Least float64
	// Also must hold as well.
	Also *Bound
}

// Verdict says what a row has come to.
type Verdict struct {
	Row
	OursValue, LimitValue float64 // medians; NaN where there is none
	// Peers tells of the peers, the best one with its median and those that were not run.
	Peers string
	// Ratio is the median over the laps of ours divided by the limit's.
	Ratio       float64
	First, Goal Outcome
	// FirstValue and GoalValue are what was held against the bounds, in words.
	FirstValue, GoalValue string
}

// Judge holds a row against the results of its race.
func (row Row) Judge(results []Result) Verdict {
	return Verdict{
		Row:        row,
		OursValue:  median(values(results, row.Ours, row.Unit)),
		LimitValue: median(values(results, row.Limit, row.Unit)),
		Peers:      row.peers(results),
		Ratio:      ratio(results, row.Ours, row.Unit, row.Limit, row.Unit),
		First:      row.outcome(row.First, results),
		Goal:       row.outcome(row.Goal, results),
		FirstValue: row.held(row.First, results),
		GoalValue:  row.held(row.Goal, results),
	}
}

// value is what b bounds.
func (row Row) value(b Bound, results []Result) float64 {
	if b.Than == "" {
		return median(values(results, row.Ours, b.unit(row)))
	}
	return ratio(results, row.Ours, row.Unit, b.Than, b.unit(row))
}

func (b Bound) unit(row Row) string {
	if b.Unit != "" {
		return b.Unit
	}
	return row.Unit
}

// Outcome says whether a bound was reached. It is "" for a bound that bounds nothing.
type Outcome string

const (
	reached    Outcome = "yes"
	notReached Outcome = "no"
	notRun     Outcome = "not run" // what it is held against was not on the machine
)

// outcome holds a bound against the results. What was not measured holds nothing.
func (row Row) outcome(b Bound, results []Result) Outcome {
	if b == (Bound{}) {
		return ""
	}
	also := reached
	if b.Also != nil {
		also = row.outcome(*b.Also, results)
	}
	v := row.value(b, results)
	switch {
	case also == notReached:
		return notReached
	case missing(results, b.Than):
		return notRun
	case b.Most != 0 && !(v <= b.Most), b.Least != 0 && !(v >= b.Least):
		return notReached
	}
	return also
}

// missing reports whether a contender was not on the machine.
func missing(results []Result, contender string) bool {
	return slices.ContainsFunc(results, func(r Result) bool { return r.Contender == contender && r.Missing })
}

// peers is the best peer with its median, then the peers that were not run.
func (row Row) peers(results []Result) string {
	best, bestValue := "", math.NaN()
	var absent []string
	for _, peer := range row.Peers {
		v := median(values(results, peer, row.Unit))
		switch {
		case missing(results, peer):
			absent = append(absent, peerName(peer))
		case math.IsNaN(v): // it does not measure that
		case math.IsNaN(bestValue), moreIsBetter(row.Unit) == (v > bestValue):
			best, bestValue = peerName(peer), v
		}
	}
	var parts []string
	if best != "" {
		parts = append(parts, best+": "+number(bestValue))
	}
	if len(absent) > 0 {
		parts = append(parts, "not run: "+strings.Join(absent, ", "))
	}
	return strings.Join(parts, "; ")
}

// peerName is the name of a contender without what it has in common with others of its race.
func peerName(contender string) string {
	if name, ok := strings.CutPrefix(contender, "peer="); ok {
		name, _, _ = strings.Cut(name, "/")
		return name
	}
	return contender
}

// moreIsBetter reports whether a unit is a rate.
func moreIsBetter(unit string) bool { return strings.HasSuffix(unit, "/s") }

// held is the value that b bounds with the bound, "1.52 <= 1.60". A ratio to another contender than the limit names
// that, "2.10 of go-sse >= 1.10", and a value in another unit than that of the row names the unit.
func (row Row) held(b Bound, results []Result) string {
	text := number(row.value(b, results))
	if b.Than == "" && b.Unit != "" {
		text += " " + b.Unit
	}
	if b.Than != "" && b.Than != row.Limit {
		text += " of " + peerName(b.Than)
	}
	switch {
	case b.Most != 0:
		text += " <= " + number(b.Most)
	case b.Least != 0:
		text += " >= " + number(b.Least)
	default:
		text = ""
	}
	text = strings.TrimSpace(text)
	if b.Also != nil {
		text += ", " + row.held(*b.Also, results)
	}
	return text
}

// values are the samples of one contender in one unit.
func values(results []Result, contender, unit string) []float64 {
	var out []float64
	for _, r := range results {
		if r.Contender != contender {
			continue
		}
		for _, s := range r.Samples {
			if v, ok := s[unit]; ok {
				out = append(out, v)
			}
		}
	}
	return out
}

// ratio is the median over the laps of one contender's value divided by the other's in the same lap.
func ratio(results []Result, a, aUnit, b, bUnit string) float64 {
	av, bv := values(results, a, aUnit), values(results, b, bUnit)
	ratios := make([]float64, min(len(av), len(bv)))
	for i := range ratios {
		ratios[i] = av[i] / bv[i]
	}
	return median(ratios)
}

// median is NaN for no values.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	mid := len(v) / 2
	if len(v)%2 == 1 {
		return v[mid]
	}
	return (v[mid-1] + v[mid]) / 2
}

// number is v with three digits that count, "" for NaN.
func number(v float64) string {
	switch abs := math.Abs(v); {
	case math.IsNaN(v):
		return ""
	case abs >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case abs >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}
