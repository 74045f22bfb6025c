package client

import (
	"net/http"
	"sync"
	"time"
)

// pingAfter is the silence after which a connection over HTTP/2 is pinged, and the time limit of the ping. Without it,
// a request that timed out would be retried on the same dead connection, since requests share it.
const pingAfter = 15 * time.Second

// sharedTransport is http.DefaultTransport with connections over HTTP/2 that are found out when they are dead.
var sharedTransport = sync.OnceValue(func() http.RoundTripper {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok || transport.HTTP2 != nil {
		return http.DefaultTransport
	}
	transport = transport.Clone()
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter, WriteByteTimeout: pingAfter}
	return transport
})
