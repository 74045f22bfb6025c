package client

import (
	"net/http"
	"sync"

	"reprise/internal/serverproof"
)

// ErrUnproven is the error of a call that was not sent. The token comes from a file of this machine, and the program
// that listens at the address does not prove that it knows the token. It may be another program, a server of an older
// version, or a proxy. A Client that gets its token from Options.Token or REPRISE_TOKEN sends it without a proof.
var ErrUnproven = serverproof.ErrUnproven

// provenTransport returns base restricted to connections whose server has proven that it knows the token.
func provenTransport(base http.RoundTripper, token string) http.RoundTripper {
	shared, ok := base.(*http.Transport)
	if !ok {
		return base
	}
	if known, ok := provenTransports.Load(token); ok {
		return known.(http.RoundTripper)
	}
	known, _ := provenTransports.LoadOrStore(token, serverproof.Transport(shared, token))
	return known.(http.RoundTripper)
}

// provenTransports are the transports of all Clients, by token, so that Clients share connections.
var provenTransports sync.Map
