package otlp

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"reprise/internal/metrics"
)

// MeterOptions are the settings of a Meter. Target and Registry are required; the zero value of every other field means
// its default.
type MeterOptions struct {
	Target
	// Registry holds the metrics to send.
	Registry *metrics.Registry
	// Every is the time between two messages. Default: 60 s.
	Every time.Duration
}

// Meter sends metrics. A nil Meter does nothing.
type Meter struct {
	opts     MeterOptions
	exporter *exporter
	began    time.Time
	closing  chan struct{}
	done     chan struct{}
	once     sync.Once
}

// NewMeter returns a running Meter, which must be closed. The error wraps reprise.ErrInvalid if the URL is invalid.
func NewMeter(opts *MeterOptions) (*Meter, error) {
	m := &Meter{opts: *opts, began: time.Now(), closing: make(chan struct{}), done: make(chan struct{})}
	if m.opts.Every == 0 {
		m.opts.Every = time.Minute
	}
	var err error
	if m.exporter, err = newExporter("metrics", m.opts.Target); err != nil {
		return nil, err
	}
	go m.run()
	return m, nil
}

// Close sends the metrics a last time, for a few seconds at most. Closing again does nothing.
func (m *Meter) Close() {
	if m == nil {
		return
	}
	m.once.Do(func() {
		close(m.closing)
		m.exporter.close(m.done)
	})
}

// run sends until the Meter is closed. Sums that the collector did not accept are part of the next message.
func (m *Meter) run() {
	defer close(m.done)
	tick := time.NewTicker(m.opts.Every)
	defer tick.Stop()
	for {
		closing := false
		select {
		case <-tick.C:
		case <-m.closing:
			closing = true
		}
		m.exporter.send(m.encode(time.Now()))
		if closing {
			return
		}
	}
}

type wireMetric struct {
	Name        string      `json:"name"`
	Description string      `json:"description"`
	Unit        string      `json:"unit,omitempty"`
	Sum         *wirePoints `json:"sum,omitempty"`
	Gauge       *wirePoints `json:"gauge,omitempty"`
	Histogram   *wirePoints `json:"histogram,omitempty"`
}

type wirePoints struct {
	Points      []wirePoint `json:"dataPoints"`
	Temporality int         `json:"aggregationTemporality,omitempty"`
	Monotonic   bool        `json:"isMonotonic,omitempty"`
}

type wirePoint struct {
	Attributes []wireAttribute `json:"attributes,omitempty"`
	Start      string          `json:"startTimeUnixNano,omitempty"`
	Time       string          `json:"timeUnixNano"`
	Double     *float64        `json:"asDouble,omitempty"`
	Sum        *float64        `json:"sum,omitempty"`
	Count      string          `json:"count,omitempty"` // a 64-bit integer is a string
	Buckets    []string        `json:"bucketCounts,omitempty"`
	Bounds     []float64       `json:"explicitBounds,omitempty"`
}

// cumulative is the temporality of sums since the start.
const cumulative = 2

func (m *Meter) encode(now time.Time) []byte {
	wire := []wireMetric{}
	for _, family := range m.opts.Registry.Snapshot() {
		metric := wireMetric{Name: family.Name, Description: family.Help, Unit: unit(family.Name)}
		points := &wirePoints{}
		switch family.Kind {
		case "counter":
			metric.Sum = points
			points.Temporality, points.Monotonic = cumulative, true
		case "histogram":
			metric.Histogram = points
			points.Temporality = cumulative
		default:
			metric.Gauge = points
		}
		for _, sample := range family.Samples {
			if math.IsNaN(sample.Value) || math.IsInf(sample.Value, 0) {
				continue // not every decoder accepts a JSON form of NaN and the infinities
			}
			point := m.point(&sample)
			point.Time = nanos(now)
			if metric.Gauge == nil {
				point.Start = nanos(m.began)
			}
			points.Points = append(points.Points, point)
		}
		if len(points.Points) > 0 {
			wire = append(wire, metric)
		}
	}
	text, err := json.Marshal(wire)
	if err != nil {
		panic(err) // strings and finite numbers have a JSON form
	}
	return []byte(`{"resourceMetrics":[{"resource":` + resourceAttributes(m.opts.Resource) +
		`,"scopeMetrics":[{"scope":{"name":"reprise"},"metrics":` + string(text) + `}]}]}`)
}

// point returns a sample without its times.
func (m *Meter) point(sample *metrics.Sample) (p wirePoint) {
	for i, label := range sample.Labels {
		value := strings.ToValidUTF8(sample.Values[i], "\uFFFD")
		p.Attributes = append(p.Attributes, wireAttribute{Key: label, Value: wireValue{String: &value}})
	}
	if sample.Counts == nil {
		p.Double = &sample.Value
		return p
	}
	var count uint64
	for _, n := range sample.Counts {
		count += n
		p.Buckets = append(p.Buckets, strconv.FormatUint(n, 10))
	}
	p.Sum, p.Count, p.Bounds = &sample.Value, strconv.FormatUint(count, 10), sample.Bounds
	return p
}

// unit returns the UCUM unit of a metric, derived from the suffix of its Prometheus name.
func unit(name string) string {
	name = strings.TrimSuffix(name, "_total")
	switch {
	case strings.HasSuffix(name, "_seconds"):
		return "s"
	case strings.HasSuffix(name, "_bytes"):
		return "By"
	}
	return ""
}
