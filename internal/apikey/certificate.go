package apikey

import (
	"context"
	"fmt"

	"reprise/internal/identity"
)

// Certified implements identity.Certificates: a certificate stands for the key whose id it names, and ends with that.
func (r *Registry) Certified(_ context.Context, id string) (identity.Principal, error) {
	e := r.entry(id)
	if e == nil {
		return identity.Principal{}, fmt.Errorf("%w: the client certificate names no API key of this server",
			identity.ErrUnauthenticated)
	}
	return e.current()
}
