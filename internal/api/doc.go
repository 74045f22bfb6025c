// Package api is the HTTP interface of Reprise, version 1: executions, streams,
// sessions, and what a server needs beside them. The contract is openapi.yaml,
// which is served at /openapi.yaml; docs/protocol.md tells it as a story.
//
//	server, err := api.New(log, host, gate, &api.Options{Logger: logger})
//	httpServer := api.NewHTTPServer(server)
//	httpServer.Serve(listener)
//
// A request passes through the files of this package in this order: access.go
// (request id, log, panics), guard.go (Host and Origin), routes.go (path,
// method, who may, which parameters), then the handler of its route, which reads what
// was sent through query.go and decode.go and answers through answer.go. Handlers
// return errors; answer.go alone makes problem details of them.
//
// Event streams have three forms: Server-Sent Events are the business of package
// ssehttp, lines of JSON that of ndjson.go, pages that of page.go. All three begin at
// the same place, events.go, so that positions, filters, limits and the end of a
// proof mean the same in each.
package api
