package upkeep

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"time"

	"reprise"
	"reprise/client"
)

// exportedStream is the line of a stream.
type exportedStream struct {
	Tenant    reprise.Tenant    `json:"tenant"`
	Stream    string            `json:"stream"`
	Epoch     reprise.Epoch     `json:"epoch"`
	Created   string            `json:"created"`
	Labels    map[string]string `json:"labels,omitempty"`
	Retention client.Retention  `json:"retention"`
	Earliest  uint64            `json:"earliest"`
	Tail      uint64            `json:"tail"`
	Outcome   string            `json:"outcome,omitempty"` // of a stream that has ended
	Ended     string            `json:"ended,omitempty"`
	Expires   string            `json:"expires,omitempty"`
}

// exportedEvent is the line of an event.
type exportedEvent struct {
	Tenant reprise.Tenant  `json:"tenant"`
	Stream string          `json:"stream"`
	Type   string          `json:"type"`
	Event  json.RawMessage `json:"event"`
}

// Export writes a line of JSON for each stream of a store, the newest first, and for each of its events.
func Export(ctx context.Context, store reprise.Store, tenant reprise.Tenant, to io.Writer) error {
	out := bufio.NewWriterSize(to, 64<<10)
	q := reprise.ListQuery{Tenant: tenant, AllNamespaces: true, Limit: 1000}
	for {
		page, err := store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Streams {
			if key := page.Streams[i].Key; key.IsMarker() {
				continue
			}
			if err := exportStream(ctx, store, out, &page.Streams[i]); err != nil {
				return err
			}
		}
		if q.After = page.Next; q.After == "" {
			return out.Flush()
		}
	}
}

// exportStream writes the lines of a stream.
func exportStream(ctx context.Context, store reprise.Store, out *bufio.Writer, info *reprise.StreamInfo) error {
	line := exportedStream{
		Tenant: info.Key.Tenant, Stream: info.Key.Name, Epoch: info.Epoch, Created: exportedTime(info.Created),
		Labels: info.Config.Labels, Earliest: info.Earliest, Tail: info.Tail,
		Retention: client.Retention{
			MaxEvents: info.Config.Retention.MaxEvents, MaxBytes: info.Config.Retention.MaxBytes,
			MaxAge: client.Duration(info.Config.Retention.MaxAge),
		},
	}
	if end := info.End; end != nil {
		line.Outcome, line.Ended, line.Expires = end.Outcome, exportedTime(end.Time), exportedTime(end.Expires)
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if _, err := out.Write(append(reprise.AppendJSONLine(nil, text), '\n')); err != nil {
		return err
	}
	for after := info.Earliest - 1; after < info.Tail; {
		page, err := store.Read(ctx, info.Key, after, 256<<10)
		if err != nil {
			return err
		}
		for _, b := range page.Batches {
			for e, err := range reprise.Records(b) {
				if err != nil {
					return err
				}
				if e.Seq <= after || e.Seq > info.Tail {
					continue
				}
				text, err := json.Marshal(exportedEvent{info.Key.Tenant, info.Key.Name, e.Type, e.AppendJSON(nil)})
				if err != nil {
					return err
				}
				if _, err := out.Write(append(reprise.AppendJSONLine(nil, text), '\n')); err != nil {
					return err
				}
			}
			after = max(after, b.Last())
		}
		if len(page.Batches) == 0 {
			break
		}
	}
	return nil
}

func exportedTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
