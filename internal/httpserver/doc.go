// Package httpserver is the HTTP server of serve and gateway. It bounds the resources of clients that have not
// authenticated.
//
// New returns an http.Server with a bounded number of connections. A connection counts as unauthenticated until it has
// carried a complete request for which a handler has called Authenticated. When there are too many connections, the
// oldest unauthenticated one is closed, so that a new request is always answered:
//
//	server := httpserver.New(handler, &httpserver.Options{Logger: logger})
//	err := server.Serve(listener)
//
// GuardBody bounds the pauses in the body of a request, also if the handler answers without reading it. It is
// independent of the server, so that handlers for servers of other programs can use it:
//
//	func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
//		w, r, done := httpserver.GuardBody(w, r, 30*time.Second)
//		defer done()
//		...
//	}
package httpserver
