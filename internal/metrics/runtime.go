package metrics

import (
	"runtime"
	rtmetrics "runtime/metrics"
)

// runtimeGauges are the values of the Go runtime, under the names of the Prometheus client for Go.
var runtimeGauges = []struct {
	source, name, help string
	kind               Kind
}{
	{"/sched/goroutines:goroutines", "go_goroutines", "Number of goroutines.", KindGauge},
	{"/sched/threads/total:threads", "go_threads", "Number of threads of the operating system.", KindGauge},
	{"/sched/gomaxprocs:threads", "go_sched_gomaxprocs_threads", "The current GOMAXPROCS.", KindGauge},
	{"/gc/gomemlimit:bytes", "go_gc_gomemlimit_bytes", "The soft limit of memory, GOMEMLIMIT.", KindGauge},
	{"/gc/cycles/total:gc-cycles", "go_gc_cycles_total_gc_cycles_total", "Completed garbage collections.", KindCounter},
	{"/gc/heap/allocs:bytes", "go_memstats_alloc_bytes_total", "Bytes allocated on the heap so far.", KindCounter},
	{"/gc/heap/objects:objects", "go_memstats_heap_objects", "Objects on the heap.", KindGauge},
	{"/gc/heap/goal:bytes", "go_memstats_next_gc_bytes", "Heap size at which the next collection ends.", KindGauge},
	{"/memory/classes/heap/objects:bytes", "go_memstats_heap_alloc_bytes", "Bytes of objects on the heap.", KindGauge},
	{"/memory/classes/heap/stacks:bytes", "go_memstats_stack_inuse_bytes", "Bytes of stacks.", KindGauge},
	{"/memory/classes/total:bytes", "go_memstats_sys_bytes", "Bytes obtained from the operating system.", KindGauge},
}

// RegisterRuntime registers metrics of the Go runtime and of the process. A metric that the operating system does not
// provide is left out.
func (r *Registry) RegisterRuntime() {
	r.Func(KindGauge, "go_info", "The version of Go.", []string{"version"}, func(emit func(float64, ...string)) {
		emit(1, runtime.Version())
	})
	for _, g := range runtimeGauges {
		r.Func(g.kind, g.name, g.help, nil, func(emit func(float64, ...string)) {
			sample := []rtmetrics.Sample{{Name: g.source}}
			rtmetrics.Read(sample)
			if sample[0].Value.Kind() == rtmetrics.KindUint64 {
				emit(float64(sample[0].Value.Uint64()))
			}
		})
	}
	for _, m := range processMetrics {
		r.Func(m.kind, m.name, m.help, nil, func(emit func(float64, ...string)) {
			if value, ok := m.measure(); ok {
				emit(value)
			}
		})
	}
}

// processMetric is a metric of this process, read from the operating system.
type processMetric struct {
	name, help string
	kind       Kind
	measure    func() (value float64, ok bool)
}
