package mcpserver

import "time"

// WithQuiet returns o with another pause in the output that ends a wait for output.
func (o Options) WithQuiet(d time.Duration) *Options {
	o.quiet = d
	return &o
}
