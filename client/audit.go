package client

import (
	"context"
	"net/http"
	"time"

	"reprise"
)

// AuditEntry is one act, or several of a kind that were refused.
type AuditEntry struct {
	Time time.Time `json:"time"`
	// Principal and Tenant identify the sender, "" for an unknown one.
	Principal string         `json:"principal"`
	Tenant    reprise.Tenant `json:"tenant"`
	// Act is the requested operation: a method and a route of the API, or "MCP" and a tool.
	Act string `json:"act"`
	// Object is the object of the operation: a path of the API, or the id of an execution.
	Object string `json:"object,omitempty"`
	// Remote is the address that the request came from, Request its id.
	Remote  string `json:"remote,omitempty"`
	Request string `json:"request,omitempty"`
	// Result is "" for an act that was allowed, or the code by which it was refused, Count times since Time.
	Result string `json:"result,omitempty"`
	Count  int    `json:"count,omitempty"`
}

// AuditRecord is the data of events of the audit log.
type AuditRecord struct {
	AuditEntry
	// Writer names the chain, and N numbers its records from 1.
	Writer string `json:"writer"`
	N      uint64 `json:"n"`
	// Prev is the Code of the previous record in the chain, or for the first one the newest record of all.
	Prev string `json:"prev"`
	Code string `json:"code,omitempty"`
}

// AuditCheck is what a check of the audit log has found.
type AuditCheck struct {
	// Records and Writers are the numbers of records and of writers.
	Records int `json:"records"`
	Writers int `json:"writers"`
	// First is the seq of the first record that is kept.
	First uint64 `json:"first"`
	// Wrong are the found faults, at most 100. It is empty for an unchanged log.
	Wrong []string `json:"wrong"`
}

// PageAudit returns one page of the audit log, which needs the scope "audit". The types of events are "audit", with an
// AuditRecord as Data, and "gap" where records are no longer kept. opts may be nil. The error wraps reprise.ErrNotFound
// if the server keeps no audit log.
func (c *Client) PageAudit(ctx context.Context, opts *PageOptions) (Page, error) {
	var asked PageOptions
	if opts != nil {
		asked = *opts
	}
	asked.gapEvent = true
	return c.page(ctx, "read the audit log", "/v1/audit", &asked)
}

// CheckAudit checks the audit log for changed and removed records. The server reads the whole log.
func (c *Client) CheckAudit(ctx context.Context) (AuditCheck, error) {
	return answer[AuditCheck](ctx, c, &request{
		op: "check the audit log", method: http.MethodPost, path: "/v1/audit/check", patient: true,
	})
}
