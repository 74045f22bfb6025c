package bench

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
)

// Centrifugo keeps the history of its channels in memory, as it does by default: 100,000 events a channel for an hour.
const (
	centrifugo        = "peer=centrifugo"
	centrifugoProgram = "centrifugo"
)

func startCentrifugo(ctx context.Context) (*peerServer, error) {
	return startPeer(ctx, centrifugoProgram, func(dir, addr string) ([]string, error) {
		const form = `{
	"http_server": {"address": "127.0.0.1", "port": %q},
	"log": {"level": "error"},
	"client": {"insecure": true},
	"http_api": {"insecure": true},
	"uni_sse": {"enabled": true},
	"channel": {"without_namespace": {"history_size": 100000, "history_ttl": "1h"}}
}
`
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		config := filepath.Join(dir, "config.json")
		return []string{"--config", config}, os.WriteFile(config, fmt.Appendf(nil, form, port), 0o600)
	})
}

// centrifugoPost publishes events to the channel of a connection: one, or more in a batch of commands.
func centrifugoPost(i, batch int, data []byte) []byte {
	event := fmt.Appendf(nil, `{"channel":"bench%d","data":{"data":"%s"}}`, i, data)
	if batch == 1 {
		return newRequest("POST", "/api/publish", "", "application/json", event)
	}
	commands := bytes.Repeat(fmt.Appendf(nil, `{"publish":%s},`, event), batch)
	body := fmt.Appendf(nil, `{"commands":[%s]}`, bytes.TrimSuffix(commands, []byte(",")))
	return newRequest("POST", "/api/batch", "", "application/json", body)
}

// centrifugoAccepted reports an error in an answer, which has the status 200 all the same.
func centrifugoAccepted(answer []byte) error {
	if bytes.Contains(answer, []byte(`"error"`)) {
		return fmt.Errorf("%w: %.200s", errLost, answer)
	}
	return nil
}

// centrifugoReader follows the channel of connection 0 over unidirectional SSE.
func centrifugoReader() []byte {
	return fmt.Appendf(nil, "GET /connection/uni_sse?cf_connect=%s HTTP/1.1\r\nHost: 127.0.0.1\r\n"+
		"Accept: text/event-stream\r\n\r\n", url.QueryEscape(`{"subs":{"bench0":{}}}`))
}

func publishCentrifugo(connections, batch int) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		p, err := startCentrifugo(ctx)
		if err != nil {
			return nil, err
		}
		post := func(i int) []byte { return centrifugoPost(i, batch, newPayload()) }
		to := publication{addr: p.addr, post: post, accepted: centrifugoAccepted, release: p.Close}
		return publishTo(scale, to, connections, batch)
	}
}

// centrifugoPosts is one request for n events that are published now.
func centrifugoPosts(n int) [][]byte { return [][]byte{centrifugoPost(0, n, stampedPayload())} }
