package serverproof

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
	"time"
)

// ErrUnproven is the error of a connection whose other end does not prove that it knows the token.
var ErrUnproven = errors.New("not proven to be the server of this machine")

// proofTime bounds the proof of one connection.
const proofTime = 30 * time.Second

// Transport returns a copy of base that asks for a proof on each new connection, before it sends anything else over it:
// a server may go, and another program take its place, while a client lives. The error of a request wraps ErrUnproven
// where the proof fails, and is a *net.OpError of a dial where nobody has answered.
func Transport(base *http.Transport, token string) *http.Transport {
	transport := base.Clone()
	transport.Proxy = nil // loopback is asked directly
	var dialer net.Dialer
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err := prove(ctx, conn, address, token); err != nil {
			conn.Close()
			if errors.Is(err, ErrUnproven) {
				return nil, err
			}
			return nil, &net.OpError{Op: "dial", Net: network, Addr: conn.RemoteAddr(), Err: err} // nothing was sent
		}
		return conn, nil
	}
	return transport
}

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
		"http://"+host+Path+"?"+Param+"="+url.QueryEscape(challenge), nil)
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
		return fmt.Errorf("the program at %s is not ready to prove that it is the server", at)
	}
	var answer struct{ Proof string }
	if res.StatusCode != http.StatusOK || json.Unmarshal(text, &answer) != nil ||
		!Good(answer.Proof, token, challenge, at) {
		return fmt.Errorf("%w: the program at %s (status %d) may be another program, an older version or a proxy; "+
			"set REPRISE_TOKEN to send the token all the same", ErrUnproven, at, res.StatusCode)
	}
	return conn.SetDeadline(time.Time{})
}
