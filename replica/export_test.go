package replica

// Vanish ends all that a replica does and tells nobody, as if its process had died.
func (m *Member) Vanish() { m.vanish() }
