//go:build !unix

package metrics

// processMetrics are not measured on this system.
var processMetrics []processMetric
