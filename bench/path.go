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
// An event is first published at least requests times without readers, and then at least rounds times to so many
// readers of the API. CPU time is that which the kernel counts for the server's process. The profiler of Go says how it
// is divided, so a part of a few percent needs thousands of events to be seen. What the readers cost is the difference
// of both runs.
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

// profiled is the CPU time for which an operation is repeated at least. The profiler takes a sample every 10 ms, so a
// run of a few milliseconds may end without any.
const profiled = 500 * time.Millisecond

// pathRun does an operation at least so many times, after some that do not count, and says what one of them costs the
// server.
func pathRun(ctx context.Context, p *process, profile string, times int, do func() error) (parts, error) {
	if err := repeat(ctx, times/10+1, do); err != nil {
		return nil, err
	}
	if _, err := p.ask("profile " + profile); err != nil {
		return nil, err
	}
	done, used, err := pathCost(ctx, p, times, do)
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
	return shares.over(float64(done) / float64(used)), os.Remove(profile)
}

// pathCost does an operation in rounds of so many until the server has used the time that a profile needs. It returns
// how often the operation was done and the CPU time that the server used.
func pathCost(ctx context.Context, p *process, times int, do func() error) (done int, used time.Duration, err error) {
	before, err := p.cpu()
	if err != nil {
		return 0, 0, err
	}
	for used < profiled {
		if err := repeat(ctx, times, do); err != nil {
			return 0, 0, err
		}
		now, err := p.cpu()
		if err != nil {
			return 0, 0, err
		}
		done, used = done+times, now-before
	}
	return done, used, nil
}

func repeat(ctx context.Context, times int, do func() error) error {
	for range times {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := do(); err != nil {
			return err
		}
	}
	return nil
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
