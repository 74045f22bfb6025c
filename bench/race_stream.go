package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// streamRace is Q3: events published over one request that goes on, acknowledged as they are committed. The limit reads
// bodies of 100 events and counts their lines; beside it stand requests of 100 events that wait for each answer.
func streamRace() Race {
	const limit = "limit=counting"
	row := func(store, what string) Row {
		return Row{
			Target: "Q3", What: "publish over a request that goes on, 1 connection, " + what, Unit: "events/s",
			Ours: "store=" + store, Limit: limit, Peers: []string{"batches=100/store=" + store},
			Goal: Bound{Than: "batches=100/store=" + store, Least: 0.8},
		}
	}
	return Race{
		Name: "PublishStream",
		Contenders: []Contender{
			{limit, publishCounted(1, 100), false},
			{"store=log", publishStreamed("log:"), false},
			{"store=sqlite", publishStreamed("sqlite:"), false},
			{"store=memory", publishStreamed("memory:"), false},
			{"batches=100/store=log", publishProduct("log:", 1, 100), false},
			{"batches=100/store=sqlite", publishProduct("sqlite:", 1, 100), false},
			{"batches=100/store=memory", publishProduct("memory:", 1, 100), false},
		},
		Rows: []Row{row("log", "embedded log"), row("sqlite", "SQLite"), row("memory", "memory")},
	}
}

func publishStreamed(store string) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		p, err := startProduct(ctx, store)
		if err != nil {
			return nil, err
		}
		w, err := dialWire(p.addr)
		if err == nil {
			err = w.do(newRequest("PUT", streamPath(0), p.token, "application/json", []byte("{}")))
			_ = w.Close()
		}
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		lasts := time.Duration(scale.Of(1000, 100)) * time.Millisecond
		return closing{func(context.Context) (Sample, error) { return p.streamLap(lasts) }, p.Close}, nil
	}
}

// streamLap publishes for a while over one request, up to its end. Only what was acknowledged counts.
func (p *product) streamLap(lasts time.Duration) (Sample, error) {
	const perChunk = 250
	w, err := dialWire(p.addr)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	body := publishBody(perChunk)
	chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", len(body), body)
	head := fmt.Sprintf("POST %s/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/x-ndjson\r\nAccept: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
		streamPath(0), p.token)
	start := time.Now()
	sent, failed := 0, make(chan error, 1)
	go func() {
		err := w.write([]byte(head))
		for ; err == nil && time.Since(start) < lasts; sent += perChunk {
			_, err = w.conn.Write(chunk)
		}
		if err == nil {
			_, err = w.conn.Write([]byte("0\r\n\r\n"))
		}
		failed <- err
	}()
	acked, err := w.acknowledged()
	took := time.Since(start)
	if err != nil {
		_ = w.Close() // which ends the writer
	}
	err = errors.Join(err, <-failed)
	if err == nil && acked != sent {
		err = fmt.Errorf("%w: %d of %d events are acknowledged", errLost, acked, sent)
	}
	return Sample{"events/s": float64(acked) / took.Seconds()}, err
}

// acknowledged reads the answer to a publish that goes on, and returns how many events its last line tells of.
func (w *wire) acknowledged() (int, error) {
	for {
		line, err := w.line()
		if err != nil {
			return 0, err
		}
		if !bytes.Contains(line, []byte(`"done"`)) && !bytes.Contains(line, []byte(`"error"`)) &&
			!bytes.HasPrefix(line, []byte("HTTP/1.1 4")) {
			continue
		}
		var last struct {
			Events int
			Done   bool
		}
		if err := json.Unmarshal(line, &last); err != nil || !last.Done {
			return 0, fmt.Errorf("%w: %s", errLost, line)
		}
		return last.Events, nil
	}
}
