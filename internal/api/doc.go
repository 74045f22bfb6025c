// Package api is the HTTP interface of Reprise, version 1: executions, streams,
// sessions, and the operations of a server. The contract is openapi.yaml,
// which is served at /openapi.yaml; docs/protocol.md explains it with examples.
//
//	server, err := api.New(log, host, gate, &api.Options{Logger: logger})
//	httpServer := api.NewHTTPServer(server)
//	httpServer.Serve(listener)
//
// A request passes through the files of this package in this order: access.go
// (request id, log, panics), guard.go (Host and Origin), routes.go (path,
// method, authorization, parameters), then the handler of its route. Handlers parse
// input with query.go and decode.go and answer with answer.go. They
// return errors; only answer.go turns them into problem documents.
//
// Event streams have three forms. Package ssehttp handles Server-Sent Events,
// ndjson.go lines of JSON, and page.go pages. All three begin in
// events.go, so positions, filters, limits and revocation
// mean the same in each.
package api
