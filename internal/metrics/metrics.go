// Package metrics keeps counters, gauges and histograms and writes them in the
// Prometheus text format, version 0.0.4.
//
// A [Registry] makes each metric under its name. A metric with labels is a [Vec],
// whose members are made when their label values are first used:
//
//	registry := metrics.NewRegistry()
//	ended := registry.Counters("reprise_executions_ended_total", "Executions that have ended, by outcome.", "outcome")
//	ended.With("exited").Inc()
//
// All methods are safe for concurrent use. Counting takes no lock, except to find
// the member of a Vec.
package metrics

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Registry holds metrics by name and writes them as one page.
type Registry struct {
	mu       sync.Mutex
	families map[string]*family
}

// family holds all metrics of one name.
type family struct {
	name, help, kind string
	collectors       []func(sink)
}

// sink receives the values of metrics: a page of text or a snapshot.
type sink interface {
	sample(name string, labels, values []string, value float64)
	histogram(name string, labels, values []string, h *Histogram)
}

// NewRegistry returns an empty Registry.
func NewRegistry() *Registry { return &Registry{families: map[string]*family{}} }

var (
	validName  = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	validLabel = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// register adds a collector under name. A name that is in use is shared if its help and
// kind are the same. Anything else is a mistake of the program, and panics.
func (r *Registry) register(name, help, kind string, labels []string, collect func(sink)) {
	invalid := func(label string) bool { return !validLabel.MatchString(label) }
	if !validName.MatchString(name) || slices.ContainsFunc(labels, invalid) {
		panic(fmt.Sprintf("metrics: invalid name or label: %s%v", name, labels))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.families[name]
	if !ok {
		f = &family{name: name, help: help, kind: kind}
		r.families[name] = f
	}
	if f.help != help || f.kind != kind {
		panic(fmt.Sprintf("metrics: %s is registered twice, as %s %q and %s %q", name, f.kind, f.help, kind, help))
	}
	f.collectors = append(f.collectors, collect)
}

// sorted returns the current families in the order of their names.
func (r *Registry) sorted() []*family {
	r.mu.Lock()
	families := make([]*family, 0, len(r.families))
	for _, f := range r.families {
		families = append(families, &family{f.name, f.help, f.kind, slices.Clone(f.collectors)})
	}
	r.mu.Unlock()
	slices.SortFunc(families, func(a, b *family) int { return strings.Compare(a.name, b.name) })
	return families
}

// Counter registers a counter without labels.
func (r *Registry) Counter(name, help string) *Counter {
	return r.Counters(name, help).With()
}

// Counters registers a counter for each combination of the labels' values.
func (r *Registry) Counters(name, help string, labels ...string) *Vec[Counter] {
	v := newVec(labels, func() *Counter { return new(Counter) })
	r.register(name, help, "counter", labels, func(to sink) {
		v.each(func(values []string, c *Counter) { to.sample(name, labels, values, c.Value()) })
	})
	return v
}

// Gauge registers a gauge without labels.
func (r *Registry) Gauge(name, help string) *Gauge {
	return r.Gauges(name, help).With()
}

// Gauges registers a gauge for each combination of the labels' values.
func (r *Registry) Gauges(name, help string, labels ...string) *Vec[Gauge] {
	v := newVec(labels, func() *Gauge { return new(Gauge) })
	r.register(name, help, "gauge", labels, func(to sink) {
		v.each(func(values []string, g *Gauge) { to.sample(name, labels, values, g.Value()) })
	})
	return v
}

// Histogram registers a histogram without labels. Buckets are the inclusive upper bounds of
// its buckets, in ascending order; a last bucket for all larger values is implied.
func (r *Registry) Histogram(name, help string, buckets []float64) *Histogram {
	return r.Histograms(name, help, buckets).With()
}

// Histograms registers a histogram for each combination of the labels' values.
func (r *Registry) Histograms(name, help string, buckets []float64, labels ...string) *Vec[Histogram] {
	v := newVec(labels, func() *Histogram { return newHistogram(buckets) })
	r.register(name, help, "histogram", labels, func(to sink) {
		v.each(func(values []string, h *Histogram) { to.histogram(name, labels, values, h) })
	})
	return v
}

// A Kind says how the values of a [Registry.Func] are to be read.
type Kind string

// The kinds of a [Registry.Func].
const (
	KindCounter Kind = "counter"
	KindGauge   Kind = "gauge"
)

// Func registers a metric that is measured when the page is written. Measure calls emit once for each combination of
// label values; a combination without a call is not shown.
func (r *Registry) Func(
	kind Kind, name, help string, labels []string, measure func(emit func(value float64, labelValues ...string)),
) {
	r.register(name, help, string(kind), labels, func(to sink) {
		measure(func(value float64, labelValues ...string) { to.sample(name, labels, labelValues, value) })
	})
}

// maxLabels bounds the labels of a metric.
const maxLabels = 4

// Vec is a metric for each combination of label values.
type Vec[M any] struct {
	labels int
	create func() *M

	mu      sync.RWMutex
	members map[[maxLabels]string]*M
}

func newVec[M any](labels []string, create func() *M) *Vec[M] {
	if len(labels) > maxLabels {
		panic(fmt.Sprintf("metrics: more than %d labels: %v", maxLabels, labels))
	}
	return &Vec[M]{labels: len(labels), create: create, members: map[[maxLabels]string]*M{}}
}

// With returns the metric with these label values, in the order in which the labels were registered. It panics if their
// number differs.
func (v *Vec[M]) With(values ...string) *M {
	if len(values) != v.labels {
		panic(fmt.Sprintf("metrics: %d label values, want %d", len(values), v.labels))
	}
	var key [maxLabels]string
	copy(key[:], values)
	v.mu.RLock()
	m, ok := v.members[key]
	v.mu.RUnlock()
	if ok {
		return m
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if m, ok = v.members[key]; !ok {
		m = v.create()
		v.members[key] = m
	}
	return m
}

// each calls f for every member in the order of the label values.
func (v *Vec[M]) each(f func(values []string, m *M)) {
	v.mu.RLock()
	keys := make([][maxLabels]string, 0, len(v.members))
	for key := range v.members {
		keys = append(keys, key)
	}
	v.mu.RUnlock()
	slices.SortFunc(keys, func(a, b [maxLabels]string) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		v.mu.RLock()
		m := v.members[key]
		v.mu.RUnlock()
		f(key[:v.labels], m)
	}
}
