package apikey

import (
	"context"
	"strings"
	"time"

	"reprise"
	"reprise/internal/identity"
)

// life is the life of a key.
type life struct {
	context.Context
	end context.CancelCauseFunc
}

// Life returns a context that ends when the key of a principal is revoked or expires, and continues when the key is
// rotated. The cause wraps identity.ErrUnauthenticated. The context of a principal that has no key does not end.
func (r *Registry) Life(tenant reprise.Tenant, name string) context.Context {
	id := name[strings.LastIndexByte(name, '.')+1:]
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.keys[id]
	if e == nil || e.Tenant != tenant || e.principal.Name != name {
		return context.Background()
	}
	l, ok := r.lives[id]
	if !ok {
		l.Context, l.end = context.WithCancelCause(context.Background())
		r.lives[id] = l
		if e.Expires != nil {
			time.AfterFunc(time.Until(*e.Expires), func() { l.end(identity.ErrExpired) })
		}
		r.settle(id)
	}
	return l.Context
}

// settle ends the life of a key that is no longer valid. The caller holds mu.
func (r *Registry) settle(id string) {
	l, ok := r.lives[id]
	if !ok {
		return
	}
	if e := r.keys[id]; e == nil {
		l.end(identity.ErrRevoked)
	} else if _, err := e.current(); err != nil {
		l.end(err)
	}
}
