// Package web is the core of the HTTP API. It admits requests, reads bodies and parameters, and writes answers and
// refusals. It names no capability; each capability adds its paths to a Mux:
//
//	m.Handle("GET", "/v1/webhooks/{id}", identity.ScopeControl, nil, h.show)
//
// A handler gets an Exchange, whose sender has the scope and whose parameters are known ones. It answers by the methods
// of the Exchange or returns an error, which becomes a problem; see package problem.
package web
