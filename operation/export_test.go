package operation

// Waiting is how many calls of Run wait for an attempt.
func (r *Runner) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiters)
}
