package oidc

// Forget makes v verify every token again.
func (v *Verifier) Forget() {
	v.cache.mu.Lock()
	defer v.cache.mu.Unlock()
	clear(v.cache.tokens)
}
