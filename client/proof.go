package client

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"reprise/internal/serverproof"
)

// ErrUnproven is the error of a call that was not sent. The token comes from a file of this machine, and the program
// that listens at the address does not prove that it knows the token. It may be another program, a server of an older
// version, or a proxy. A Client that gets its token from Options.Token or REPRISE_TOKEN sends it without a proof.
var ErrUnproven = errors.New("not proven to be the server of this machine")

// proofTime bounds the proof of one connection.
const proofTime = 30 * time.Second

// provenTransport is base with connections that have proven themselves to know the token, each before anything else is
// sent over it: a server may go, and another program take its place, while a Client lives.
func provenTransport(base http.RoundTripper, token string) http.RoundTripper {
	shared, ok := base.(*http.Transport)
	if !ok {
		return base
	}
	if known, ok := provenTransports.Load(token); ok {
		return known.(http.RoundTripper)
	}
	transport := shared.Clone()
	transport.Proxy = nil // loopback is asked directly
	var dialer net.Dialer
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err := prove(ctx, conn, address, token); err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	}
	known, _ := provenTransports.LoadOrStore(token, transport)
	return known.(http.RoundTripper)
}

// provenTransports are those of all Clients, by the token, so that they share connections.
var provenTransports sync.Map

// prove asks who answers on a connection for a proof.
func prove(ctx context.Context, conn net.Conn, host, token string) error {
	deadline := time.Now().Add(proofTime)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	challenge, at := rand.Text(), conn.RemoteAddr().String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+host+serverproof.Path+"?"+serverproof.Param+"="+url.QueryEscape(challenge), nil)
	if err != nil {
		return err
	}
	if err := req.Write(conn); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return err
	}
	if res.StatusCode == http.StatusServiceUnavailable {
		return fmt.Errorf("what listens at %s is not ready to prove that it is the server", at)
	}
	var answer struct{ Proof string }
	if res.StatusCode != http.StatusOK || json.Unmarshal(text, &answer) != nil ||
		!serverproof.Good(answer.Proof, token, challenge, at) {
		return fmt.Errorf("%w: what listens at %s (status %d) may be another program, an older version or a proxy; "+
			"set REPRISE_TOKEN to send the token all the same", ErrUnproven, at, res.StatusCode)
	}
	return conn.SetDeadline(time.Time{})
}
