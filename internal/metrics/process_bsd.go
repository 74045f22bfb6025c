//go:build unix && !linux

package metrics

// procfsMetrics are told by /proc, which this system does not have.
var procfsMetrics []processMetric
