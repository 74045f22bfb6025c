package bench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Row is a line of the table: one target of PERFORMANCE, for one contender of a race.
type Row struct {
	// Target is "P1" to "P13", "Q1" to "Q12" for what users of the built binary get, or "C" for what is asked for
	// elsewhere.
	Target string
	What   string
	// Unit is what is compared, a key of the samples.
	Unit string
	// Ours, Limit and Peer are names of contenders; Limit and Peer may be "".
	Ours, Limit, Peer string
	First, Goal       Bound
}

// Bound is what a measured value must hold. The zero Bound holds always.
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
	OursValue, LimitValue, PeerValue float64 // medians; NaN where there is none
	// Ratio is the median over the laps of ours divided by the limit's.
	Ratio      float64
	First      bool
	Goal       bool
	FirstValue string // what the bound of the first version was held against, in words
}

// Judge holds a row against the results of its race.
func (row Row) Judge(results []Result) Verdict {
	return Verdict{
		Row:        row,
		OursValue:  median(values(results, row.Ours, row.Unit)),
		LimitValue: median(values(results, row.Limit, row.Unit)),
		PeerValue:  median(values(results, row.Peer, row.Unit)),
		Ratio:      ratio(results, row.Ours, row.Unit, row.Limit, row.Unit),
		First:      row.holds(row.First, results),
		Goal:       row.holds(row.Goal, results),
		FirstValue: row.held(row.First, results),
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

// holds reports whether b holds. What was not measured holds nothing.
func (row Row) holds(b Bound, results []Result) bool {
	v := row.value(b, results)
	switch {
	case b.Most == 0 && b.Least == 0:
	case b.Most != 0 && !(v <= b.Most), b.Least != 0 && !(v >= b.Least):
		return false
	}
	return b.Also == nil || row.holds(*b.Also, results)
}

// held is the value that b bounds with what it is held against, "1.52 <= 1.6".
func (row Row) held(b Bound, results []Result) string {
	var text string
	switch {
	case b.Most != 0:
		text = number(row.value(b, results)) + " <= " + number(b.Most)
	case b.Least != 0:
		text = number(row.value(b, results)) + " >= " + number(b.Least)
	}
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
