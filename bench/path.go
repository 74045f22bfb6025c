package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"
)

// Path measures what one published event costs, part by part: from the request that publishes it to the socket of each
// reader, in nanoseconds of CPU time of the server. It writes a table to w.
//
// An event is first published requests times without readers, and then rounds times to so many readers of the API.
// CPU time is that which the kernel counts for the server's process. The profiler of Go says how it is divided, so a
// part of a few percent needs thousands of events to be seen. What the readers cost is the difference of both runs.
func Path(ctx context.Context, w io.Writer, store string, requests, rounds, readers int) (err error) {
	dir, remove, err := tempDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	p, err := startProcess("path", store, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	publisher, err := newPathPublisher(p.addr)
	if err != nil {
		return err
	}
	profile := filepath.Join(dir, "cpu.pprof")
	alone, err := pathRun(ctx, p, profile, requests, publisher.publish)
	if err != nil {
		return err
	}
	s, err := newSwarm(p.addr, pathReader(), readers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	time.Sleep(settle)
	followed, err := pathRun(ctx, p, profile, rounds, func() error {
		if err := publisher.publish(); err != nil {
			return err
		}
		return s.await(ctx, readers)
	})
	if err != nil {
		return err
	}
	return writePath(w, alone, followed.minus(alone).over(float64(readers)))
}

const pathStream = "/v1/streams/path"

// pathPublisher publishes one event a request, over a connection that it keeps.
type pathPublisher struct {
	wire    *wire
	request []byte
}

func newPathPublisher(addr string) (*pathPublisher, error) {
	wire, err := dialWire(addr)
	if err != nil {
		return nil, err
	}
	const media = "application/json"
	if err := wire.do(newRequest("PUT", pathStream, pathToken, media, []byte("{}"))); err != nil {
		return nil, err
	}
	body := fmt.Appendf(nil, `{"events":[{"type":"note","data":"%s"}]}`, newPayload())
	return &pathPublisher{wire, newRequest("POST", pathStream+"/events", pathToken, media, body)}, nil
}

func (p *pathPublisher) publish() error { return p.wire.do(p.request) }

// pathReader is the request of a reader from the tail on.
func pathReader() []byte {
	return []byte("GET " + pathStream + "/events?after=tail HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " +
		pathToken + "\r\nAccept: text/event-stream\r\n\r\n")
}

// pathRun does an operation so many times, after some that do not count, and says what one of them costs the server.
func pathRun(ctx context.Context, p *process, profile string, times int, do func() error) (parts, error) {
	for range times/10 + 1 {
		if err := do(); err != nil {
			return nil, err
		}
	}
	if _, err := p.ask("profile " + profile); err != nil {
		return nil, err
	}
	before, err := p.cpu()
	if err != nil {
		return nil, err
	}
	for range times {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := do(); err != nil {
			return nil, err
		}
	}
	after, err := p.cpu()
	if err != nil {
		return nil, err
	}
	if _, err := p.ask("profiled"); err != nil {
		return nil, err
	}
	shares, err := readShares(profile)
	if err != nil {
		return nil, errors.Join(err, os.Remove(profile))
	}
	return shares.over(1 / (float64(after-before) / float64(times))), os.Remove(profile)
}

// parts are nanoseconds, or shares of a whole, by the name of a part.
type parts map[string]float64

func (p parts) over(n float64) parts {
	quotient := parts{}
	for name, v := range p {
		quotient[name] = v / n
	}
	return quotient
}

func (p parts) minus(q parts) parts {
	difference := parts{}
	for name := range p {
		difference[name] = max(p[name]-q[name], 0) // below zero is noise
	}
	return difference
}

func (p parts) total() (sum float64) {
	for _, v := range p {
		sum += v
	}
	return sum
}

// writePath writes what publishing costs beside what each reader costs.
func writePath(w io.Writer, publish, reader parts) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "part\tns, published once\tns, to each reader\t")
	for _, name := range pathParts() {
		if publish[name] >= 1 || reader[name] >= 1 {
			fmt.Fprintf(t, "%s\t%.0f\t%.0f\t\n", name, publish[name], reader[name])
		}
	}
	fmt.Fprintf(t, "sum\t%.0f\t%.0f\t\n", publish.total(), reader.total())
	return t.Flush()
}

// pathParts are the names of all parts, in the order in which an event passes them.
func pathParts() []string {
	var names []string
	for _, r := range pathRules {
		if !slices.Contains(names, r.part) {
			names = append(names, r.part)
		}
	}
	return append(names, partRest)
}
