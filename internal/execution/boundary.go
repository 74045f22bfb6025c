package execution

import (
	"cmp"

	"reprise"
	"reprise/client"
	"reprise/internal/isolation"
)

// Boundary is what the commands of a tenant may use. Requests can tighten it, never widen it.
type Boundary struct {
	// Isolation is the level of requests that name none, and LeastIsolation the weakest one that a request may name.
	Isolation      isolation.Level `json:"isolation"`
	LeastIsolation isolation.Level `json:"least_isolation"`
	Network        string          `json:"network"` // networkOn or networkOff
	// Dir is the working directory of requests that name none. With Confined, commands work in the writable Directories
	// alone.
	Dir      string `json:"cwd"`
	Confined bool   `json:"confined"`
	isolation.Directories
	// User is "" for the user of the server. SharedUser: commands of other tenants may have the same one.
	User       string `json:"user,omitempty"`
	SharedUser bool   `json:"shared_user"`
	// Limits and Grace bound each command. 0 means no bound.
	Limits Limits          `json:"limits"`
	Grace  client.Duration `json:"grace"`
}

// Boundary returns what the commands of a tenant may use. The error says why the tenant cannot run any.
func (h *Host) Boundary(tenant reprise.Tenant) (Boundary, error) {
	config, err := h.opts.Isolation.For(string(tenant))
	if err != nil {
		return Boundary{}, err
	}
	plan, err := config.Resolve("", isolation.Access{Dir: h.cwd(tenant, &Request{})})
	if err != nil {
		return Boundary{}, err
	}
	caps := h.caps(tenant)
	b := Boundary{
		Isolation: plan.Level, LeastIsolation: cmp.Or(config.Least, isolation.None), Network: networkOn,
		Dir: plan.Access.Dir, Confined: config.Confined, Directories: config.Directories,
		User: plan.Layers.User, SharedUser: config.SharedUser,
		Limits: caps.Limits, Grace: client.Duration(caps.Grace),
	}
	if config.Offline {
		b.Network = networkOff
	}
	return b, nil
}
