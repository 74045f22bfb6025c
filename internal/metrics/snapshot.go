package metrics

import "slices"

// Family is a snapshot of all samples of one metric name.
type Family struct {
	Name, Help string
	// Kind is "counter", "gauge" or "histogram".
	Kind    string
	Samples []Sample
}

// Sample is the value of a metric for one combination of label values.
type Sample struct {
	// Labels are the names of the labels, Values their values in the same order.
	Labels, Values []string
	// Value is the value of a counter or gauge, or the sum of a histogram's observations.
	Value float64
	// Bounds are the inclusive upper bounds of a histogram's buckets. Counts holds the number of values in each bucket,
	// and last the number of values above all bounds.
	Bounds []float64
	Counts []uint64
}

// Snapshot returns all metrics of r that have values, in the order of their names.
func (r *Registry) Snapshot() []Family {
	var all []Family
	for _, f := range r.sorted() {
		taken := &snapshot{}
		for _, collect := range f.collectors {
			collect(taken)
		}
		if len(taken.samples) > 0 {
			all = append(all, Family{f.name, f.help, f.kind, taken.samples})
		}
	}
	return all
}

// snapshot collects the samples of one family.
type snapshot struct{ samples []Sample }

func (s *snapshot) sample(_ string, labels, values []string, value float64) {
	s.samples = append(s.samples, Sample{Labels: labels, Values: slices.Clone(values), Value: value})
}

func (s *snapshot) histogram(_ string, labels, values []string, h *Histogram) {
	taken := Sample{Labels: labels, Values: slices.Clone(values), Value: h.sum.load(), Bounds: h.bounds}
	for i := range h.counts {
		taken.Counts = append(taken.Counts, h.counts[i].Load())
	}
	s.samples = append(s.samples, taken)
}
