package metrics

import (
	"math"
	"slices"
	"sync/atomic"
)

// Counter is a sum that only grows.
type Counter struct{ sum float }

// Inc adds 1.
func (c *Counter) Inc() { c.sum.add(1) }

// Add adds n. It panics if n is negative.
func (c *Counter) Add(n float64) {
	if n < 0 {
		panic("metrics: a counter does not go down")
	}
	c.sum.add(n)
}

// Value returns the sum.
func (c *Counter) Value() float64 { return c.sum.load() }

// Gauge is a value that goes up and down.
type Gauge struct{ value float }

// Set replaces the value.
func (g *Gauge) Set(n float64) { g.value.bits.Store(math.Float64bits(n)) }

// Add adds n, which may be negative.
func (g *Gauge) Add(n float64) { g.value.add(n) }

// Inc adds 1.
func (g *Gauge) Inc() { g.value.add(1) }

// Dec subtracts 1.
func (g *Gauge) Dec() { g.value.add(-1) }

// Value returns the value.
func (g *Gauge) Value() float64 { return g.value.load() }

// Histogram counts observations in buckets.
type Histogram struct {
	bounds []float64       // inclusive, ascending
	counts []atomic.Uint64 // one more than bounds: the last is for larger values
	sum    float
}

func newHistogram(bounds []float64) *Histogram {
	if !slices.IsSorted(bounds) {
		panic("metrics: the buckets of a histogram are not in ascending order")
	}
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts one value.
func (h *Histogram) Observe(value float64) {
	i, _ := slices.BinarySearch(h.bounds, value)
	h.counts[i].Add(1)
	h.sum.add(value)
}

// Exponential returns n bucket bounds: start, and then each the product of factor and the one before.
func Exponential(start, factor float64, n int) []float64 {
	bounds := make([]float64, n)
	for i := range bounds {
		bounds[i] = start
		start *= factor
	}
	return bounds
}

// float is a float64 that goroutines add to without a lock.
type float struct{ bits atomic.Uint64 }

func (f *float) load() float64 { return math.Float64frombits(f.bits.Load()) }

func (f *float) add(n float64) {
	for {
		old := f.bits.Load()
		if f.bits.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+n)) {
			return
		}
	}
}
