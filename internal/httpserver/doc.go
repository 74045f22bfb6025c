// Package httpserver is the HTTP server of serve and gateway, and the bounds on what a client may hold before
// it has shown who it is.
//
// New returns an http.Server with a bounded number of connections. A connection is a stranger until it has carried a
// whole request for which a handler has called Authenticated; when there are too many connections, the oldest
// stranger is closed, so that a new request is always answered:
//
//	server := httpserver.New(handler, &httpserver.Options{Logger: logger})
//	err := server.Serve(listener)
//
// GuardBody bounds the pauses in the body of a request, also where the handler answers without reading it. It
// needs nothing from the server, so that handlers for servers of other programs can use it:
//
//	func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
//		w, r, done := httpserver.GuardBody(w, r, 30*time.Second)
//		defer done()
//		...
//	}
package httpserver
