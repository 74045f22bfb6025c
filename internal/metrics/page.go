package metrics

import (
	"math"
	"net/http"
	"strconv"
	"strings"
)

// contentType is the text format that every version of Prometheus reads.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// ServeHTTP writes all metrics of r.
func (r *Registry) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(r.AppendText(nil))
}

// AppendText appends all metrics of r to b in the order of their names. A Vec without members is written with its help
// and type alone, so that the page lists every metric from the start.
func (r *Registry) AppendText(b []byte) []byte {
	p := &page{text: b}
	for _, f := range r.sorted() {
		p.text = append(p.text, "# HELP "+f.name+" "+helpEscapes.Replace(f.help)+"\n# TYPE "+f.name+" "+f.kind+"\n"...)
		for _, collect := range f.collectors {
			collect(p)
		}
	}
	return p.text
}

// The escapes of the format: a help text may hold quotes, a label value may not.
var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// page is the text being written.
type page struct{ text []byte }

// sample writes one line.
func (p *page) sample(name string, labels, values []string, value float64) {
	p.text = append(p.text, name...)
	p.labels(labels, values, "")
	p.text = append(appendFloat(append(p.text, ' '), value), '\n')
}

// labels writes the labels in braces, with a label le if le is not empty.
func (p *page) labels(names, values []string, le string) {
	if len(names) == 0 && le == "" {
		return
	}
	p.text = append(p.text, '{')
	for i, name := range names {
		p.label(i, name, values[i])
	}
	if le != "" {
		p.label(len(names), "le", le)
	}
	p.text = append(p.text, '}')
}

func (p *page) label(i int, name, value string) {
	if i > 0 {
		p.text = append(p.text, ',')
	}
	p.text = append(p.text, name+`="`+labelEscapes.Replace(strings.ToValidUTF8(value, "\uFFFD"))+`"`...)
}

// histogram writes the cumulative buckets, the sum and the count.
func (p *page) histogram(name string, labels, values []string, h *Histogram) {
	var count uint64
	for i := range h.counts {
		count += h.counts[i].Load()
		le := "+Inf"
		if i < len(h.bounds) {
			le = string(appendFloat(nil, h.bounds[i]))
		}
		p.text = append(p.text, name+"_bucket"...)
		p.labels(labels, values, le)
		p.text = append(strconv.AppendUint(append(p.text, ' '), count, 10), '\n')
	}
	p.sample(name+"_sum", labels, values, h.sum.load())
	p.sample(name+"_count", labels, values, float64(count))
}

func appendFloat(b []byte, value float64) []byte {
	switch {
	case math.IsInf(value, 1):
		return append(b, "+Inf"...)
	case math.IsInf(value, -1):
		return append(b, "-Inf"...)
	case math.IsNaN(value):
		return append(b, "NaN"...)
	}
	return strconv.AppendFloat(b, value, 'g', -1, 64)
}
