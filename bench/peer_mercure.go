package bench

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
)

// The hub of Mercure keeps its events in a Bolt database, which it syncs before it acknowledges one. A request
// publishes one event.
const (
	mercure        = "peer=mercure"
	mercureStored  = mercure + "/events=1000" // storing 100,000 takes minutes
	mercureProgram = "mercure"
	mercurePath    = "/.well-known/mercure"
	mercureKey     = "a-key-for-benchmarks-0123456789-0123456789"
)

func startMercure(ctx context.Context) (*peerServer, error) {
	return startCaddy(ctx, mercureProgram, func(dir string) string {
		const form = `	mercure {
		publisher_jwt %s HS256
		anonymous
		transport bolt {
			path %s
		}
	}`
		return fmt.Sprintf(form, mercureKey, filepath.Join(dir, "mercure.db"))
	})
}

// mercureToken is a JSON Web Token that allows to publish everything.
func mercureToken() string {
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode([]byte(`{"mercure":{"publish":["*"]}}`))
	mac := hmac.New(sha256.New, []byte(mercureKey))
	mac.Write([]byte(signed))
	return signed + "." + encode(mac.Sum(nil))
}

// mercurePost publishes an event to the topic of a connection.
func mercurePost(i int, data []byte) []byte {
	form := url.Values{"topic": {fmt.Sprintf("bench%d", i)}, "data": {string(data)}}
	return newRequest("POST", mercurePath, mercureToken(), "application/x-www-form-urlencoded", []byte(form.Encode()))
}

// mercureReader follows the topic of connection 0, after an event unless it is "".
func mercureReader(after string) []byte {
	if after != "" {
		after = "Last-Event-ID: " + after + "\r\n"
	}
	return fmt.Appendf(nil, "GET %s?topic=bench0 HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n%s\r\n",
		mercurePath, after)
}

func publishMercure(connections int) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		p, err := startMercure(ctx)
		if err != nil {
			return nil, err
		}
		post := func(i int) []byte { return mercurePost(i, newPayload()) }
		return publishTo(scale, publication{addr: p.addr, post: post, release: p.Close}, connections, 1)
	}
}

// mercurePosts are requests for n events that are published now.
func mercurePosts(n int) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = mercurePost(0, stampedPayload())
	}
	return list
}

// resumeMercure resumes the last ten of 1,000 events.
func resumeMercure(ctx context.Context, scale Scale) (Runner, error) {
	p, err := startMercure(ctx)
	if err != nil {
		return nil, err
	}
	after, err := p.fillMercure(scale.Of(1000, 100))
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	n := scale.Of(2000, 64)
	asked := mercureReader(after)
	return closing{func(context.Context) (Sample, error) { return resumeLap(p, p.addr, asked, n) }, p.Close}, nil
}

// fillMercure publishes so many events, and returns the id before the last ten.
func (p *peerServer) fillMercure(events int) (after string, err error) {
	w, err := dialWire(p.addr)
	if err != nil {
		return "", err
	}
	defer w.Close()
	for i := range events {
		id, err := w.ask(mercurePost(0, newPayload()))
		if err != nil {
			return "", err
		}
		if i == events-resumeEvents-1 {
			after = string(id)
		}
	}
	return after, nil
}
