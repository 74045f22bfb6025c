package client

import "net/http"

// Compression says whether the client asks for events in gzip. The server compresses them without delaying any.
type Compression uint8

const (
	// CompressRemote asks servers that are not on a loopback address, where compression takes longer than it saves.
	CompressRemote Compression = iota
	// CompressAlways also asks servers on a loopback address, for example at the end of a tunnel.
	CompressAlways
	// CompressNever does not ask for compression.
	CompressNever
)

// asksFor reports whether the client asks a server at host for events in gzip.
func (c Compression) asksFor(host string) bool {
	return c == CompressAlways || c == CompressRemote && !isLoopback(host)
}

// wantEvents lets events come in gzip, if that was chosen.
func (c *Client) wantEvents(h http.Header) {
	if c.compress {
		h.Set("Accept-Encoding", "gzip")
	}
}
