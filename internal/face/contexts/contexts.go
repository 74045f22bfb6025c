// Package contexts has what the faces of other systems share about their code contexts: interpreters with a label.
package contexts

import (
	"errors"
	"fmt"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/grants"
	"reprise/internal/identity"
	"reprise/internal/web"
)

// Contexts are the interpreters that have the label Label.
type Contexts struct {
	Host  *execution.Host
	Label string
}

// Open starts an interpreter for the sender. q.Labels must have the label.
func (c Contexts) Open(x *web.Exchange, q interpreter.Request) (interpreter.Interpreter, error) {
	if err := x.MayMake(identity.ScopeRun, q.Session, "session"); err != nil {
		return interpreter.Interpreter{}, err
	}
	i, created, err := interpreter.Open(x.R.Context(), c.Host, x.Who.Holder(), q)
	if err == nil && created {
		x.Made("/v1/interpreters/" + i.ID)
	}
	return i, err
}

// Find returns one that runs, if the sender has the scope for it. The error wraps reprise.ErrNotFound otherwise.
func (c Contexts) Find(x *web.Exchange, scope identity.Scope, id string) (i interpreter.Interpreter, err error) {
	if err = (grants.Executions{Host: c.Host}).MayUse(x, scope, id); err == nil {
		i, err = interpreter.Show(x.R.Context(), c.Host, x.Who.Tenant, id)
	}
	switch {
	case err != nil:
	case i.Labels[c.Label] == "":
		err = fmt.Errorf("%w: there is no such context", reprise.ErrNotFound)
	case i.Status == execution.StatusEnded:
		err = fmt.Errorf("%w: the context has ended: %s", reprise.ErrNotFound, i.Outcome)
	}
	return i, err
}

// List returns those that run and that the sender may see.
func (c Contexts) List(x *web.Exchange) (list []interpreter.Interpreter, err error) {
	all, err := interpreter.List(x.R.Context(), c.Host, x.Who.Tenant, grants.Sessions(x))
	for n := range all {
		if i := &all[n]; i.Labels[c.Label] != "" && i.Status != execution.StatusEnded {
			list = append(list, *i)
		}
	}
	return list, err
}

// Close ends one, if the sender may.
func (c Contexts) Close(x *web.Exchange, id string) error {
	i, err := c.Find(x, identity.ScopeControl, id)
	if err == nil {
		err = c.Host.Remove(x.R.Context(), x.Who.Tenant, i.ID)
	}
	return err
}

// Default makes the context with the id q.ID if it is not there, and again if it has ended.
func (c Contexts) Default(x *web.Exchange, q interpreter.Request) error {
	ctx := x.R.Context()
	i, err := interpreter.Show(ctx, c.Host, x.Who.Tenant, q.ID)
	if err == nil && i.Status == execution.StatusEnded {
		if err = c.Host.Remove(ctx, x.Who.Tenant, q.ID); err == nil {
			err = reprise.ErrNotFound
		}
	}
	if errors.Is(err, reprise.ErrNotFound) {
		_, err = c.Open(x, q)
	}
	return err
}
