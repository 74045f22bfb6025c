package memstore

// Last returns a function after which the stream that was appended to last is that again, as for an Append that has
// found it before it was removed.
func Last(s *Store) (again func()) {
	st := s.last.Load()
	return func() { s.last.Store(st) }
}
