package mcpserver

import "time"

// WithQuiet returns o with another pause in the output that ends a wait for output.
func (o Options) WithQuiet(d time.Duration) *Options {
	o.quiet = d
	return &o
}

// WithRootsWithin returns o with another time that clients have to say which roots they have.
func (o Options) WithRootsWithin(d time.Duration) *Options {
	o.rootsWithin = d
	return &o
}

// CutsForTest returns the number of runs in their grace.
func (s *Server) CutsForTest() int {
	s.cuts.mu.Lock()
	defer s.cuts.mu.Unlock()
	return len(s.cuts.pending)
}
