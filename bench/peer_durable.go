package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// The server of Durable Streams that is written in Go, a plugin of Caddy. It syncs the file of a stream before it
// acknowledges an append. Events are the elements of JSON arrays, which are read in one plain GET.
const (
	durableStreams        = "peer=durable-streams"
	durableStreamsProgram = "durable-streams-server"
)

func startDurableStreams(ctx context.Context) (*peerServer, error) {
	return startCaddy(ctx, durableStreamsProgram, func(dir string) string {
		const form = `	route /v1/stream/* {
		durable_streams {
			data_dir %s
		}
	}`
		return fmt.Sprintf(form, filepath.Join(dir, "data"))
	})
}

// startCaddy starts a build of Caddy with a plugin. site is the part of its configuration that belongs to the plugin.
func startCaddy(ctx context.Context, program string, site func(dir string) string) (*peerServer, error) {
	return startPeer(ctx, program, func(dir, addr string) ([]string, error) {
		const form = `{
	admin off
	auto_https off
	log default {
		level ERROR
	}
}
http://%s {
	bind 127.0.0.1
%s
}
`
		config := filepath.Join(dir, "Caddyfile")
		text := fmt.Appendf(nil, form, addr, site(dir))
		return []string{"run", "--config", config, "--adapter", "caddyfile"}, os.WriteFile(config, text, 0o600)
	})
}

// durableStreamsPath is the path of the stream of a connection.
func durableStreamsPath(i int) string { return fmt.Sprintf("/v1/stream/bench%d", i) }

func durableStreamsCreate(i int) []byte {
	return newRequest("PUT", durableStreamsPath(i), "", "application/json", nil)
}

func durableStreamsPost(i, batch int) []byte {
	lines := bytes.TrimSuffix(publishBody(batch), []byte("\n"))
	body := fmt.Appendf(nil, "[%s]", bytes.ReplaceAll(lines, []byte("\n"), []byte(",")))
	return newRequest("POST", durableStreamsPath(i), "", "application/json", body)
}

func publishDurableStreams(connections, batch int) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		p, err := startDurableStreams(ctx)
		if err != nil {
			return nil, err
		}
		post := func(i int) []byte { return durableStreamsPost(i, batch) }
		to := publication{addr: p.addr, create: durableStreamsCreate, post: post, release: p.Close}
		return publishTo(scale, to, connections, batch)
	}
}

// durableStreamsHistory makes a stream of so many events, and returns a request for the last of them that are wanted.
func durableStreamsHistory(ctx context.Context, events, wanted int) (p *peerServer, asked []byte, err error) {
	if p, err = startDurableStreams(ctx); err != nil {
		return nil, nil, err
	}
	offset, err := p.fillDurableStream(events, wanted)
	if err != nil {
		return nil, nil, errors.Join(err, p.Close())
	}
	asked = fmt.Appendf(nil, "GET %s?offset=%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", durableStreamsPath(0), offset)
	return p, asked, nil
}

func (p *peerServer) fillDurableStream(events, wanted int) (offset string, err error) {
	w, err := dialWire(p.addr)
	if err != nil {
		return "", err
	}
	defer w.Close()
	if err := w.do(durableStreamsCreate(0)); err != nil {
		return "", err
	}
	const batch = 100
	offset = "-1" // the start
	for left := events; left > 0; {
		n := min(batch, left)
		if left > wanted {
			n = min(n, left-wanted)
		}
		if err := w.do(durableStreamsPost(0, n)); err != nil {
			return "", err
		}
		if left -= n; left == wanted {
			offset = w.nextOffset
		}
	}
	return offset, nil
}

func replayDurableStreams(ctx context.Context, scale Scale) (Runner, error) {
	n := scale.Of(replayEvents, 5000)
	p, asked, err := durableStreamsHistory(ctx, n, n)
	if err != nil {
		return nil, err
	}
	return closing{replayOnce(p.addr, asked, n), p.Close}, nil
}

func resumeDurableStreams(ctx context.Context, scale Scale) (Runner, error) {
	p, asked, err := durableStreamsHistory(ctx, scale.Of(replayEvents, 1000), resumeEvents)
	if err != nil {
		return nil, err
	}
	n := scale.Of(10_000, 320)
	return closing{func(context.Context) (Sample, error) { return resumeLap(p, p.addr, asked, n) }, p.Close}, nil
}
