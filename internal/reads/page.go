package reads

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/contentcoding"
	"reprise/internal/web"
	"reprise/sse/ssehttp"
)

const (
	// maxPageBytes ends a page early. An event that is longer comes alone.
	maxPageBytes = 4 << 20
	// maxPageScan limits the number of events that one page examines. The filter may reject all of them.
	maxPageScan = 10_000
	// minCompressed is the size in bytes of a page from which on compressing it is worth its time.
	minCompressed = 1 << 10
)

// page collects the events of one answer.
type page struct {
	rd       *Reading
	reader   *reprise.Reader
	wanted   map[string]bool // nil for all types
	events   []byte          // with commas between
	count    int
	scanned  int
	position uint64 // seq of the last event that was looked at
	full     bool
}

// pageEnd is the part of a page after its events.
type pageEnd struct {
	NextCursor any           `json:"next_cursor"` // a number of events if the request used one
	HasMore    bool          `json:"has_more"`
	Ended      bool          `json:"ended"`
	Window     client.Window `json:"window"`
}

// page answers with the present events, up to the limit. If there are none and the request asks for it, page waits for
// the first one.
func (s *Service) page(x *web.Exchange, rd *Reading, coding contentcoding.Coding) error {
	reader, gap, err := rd.Open(x.R, rd.Stream)
	if what, ok := rd.Resumption(reader, gap, err); ok {
		s.opts.Resumed(x.R, what)
	}
	if err != nil {
		return err
	}
	defer reader.Close()
	p := &page{
		rd: rd, reader: reader, wanted: rd.wantedTypes(),
		position: reader.Cursor().Seq,
	}
	if gap != nil {
		p.gap(gap)
	}
	if err := p.fill(x.R.Context()); err != nil {
		return err
	}
	info, next := reader.Info(), reader.Cursor()
	next.Seq = p.position // the reader may have been handed out more
	ssehttp.SetHead(x.W.Header(), rd.Stream, &info)
	var nextCursor any = next.String()
	if rd.bySeq {
		nextCursor = p.position
	}
	end, err := json.Marshal(pageEnd{
		NextCursor: nextCursor,
		HasMore:    p.position < info.Tail,
		Ended:      info.End != nil,
		Window:     s.Window(&info),
	})
	if err != nil {
		return err
	}
	body := append([]byte(`{"events":[`), p.events...)
	body = append(append(body, "],"...), end[1:]...)
	body = reprise.AppendJSONLine(nil, append(body, '\n'))
	if coding != contentcoding.Identity && len(body) >= minCompressed {
		x.W.Header().Set("Content-Encoding", string(coding))
		body = contentcoding.Compress(coding, body)
	}
	return x.AnswerText(http.StatusOK, body)
}

// fill adds events until the page is full or no more are present.
func (p *page) fill(ctx context.Context) error {
	timeout := time.NewTimer(p.rd.wait)
	defer timeout.Stop()
	for !p.full {
		events, err := p.reader.Poll(ctx)
		switch {
		case errors.Is(err, reprise.ErrEnded):
			return nil
		case err != nil:
			if goesOn, err := p.failed(err); !goesOn {
				return err
			}
		case events.Len() > 0:
			p.take(events)
		case p.count > 0 || p.rd.wait == 0:
			return nil
		default:
			select {
			case <-p.reader.Changed():
			case <-timeout.C:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// failed handles an error of the reader. goesOn is true if more events may follow on this page, after a gap.
func (p *page) failed(err error) (goesOn bool, _ error) {
	window, outside := errors.AsType[*reprise.WindowError](err)
	switch {
	case outside && p.rd.GapEvent:
		if p.reader.Seek(reprise.After(window.Resume())) == nil { // otherwise the next Poll says why
			p.position = p.reader.Cursor().Seq
			p.gap(window)
		}
		return true, nil
	case p.count > 0:
		return false, nil // the next page reports it
	}
	return false, err
}

func (p *page) take(events reprise.Events) {
	for e := range events.All() {
		if p.count >= p.rd.limit || len(p.events) >= maxPageBytes || p.scanned >= maxPageScan {
			p.full = true
			return
		}
		p.scanned++
		p.position = e.Seq
		if p.wanted == nil || p.wanted[e.Type] {
			p.separate()
			p.events = appendEvent(p.events, &e, events.CursorSuffix())
		}
	}
}

func (p *page) gap(refused *reprise.WindowError) {
	p.separate()
	p.events = appendGap(p.events, ssehttp.NewGap(p.reader, refused, p.reader.Cursor()))
}

// separate makes room for one more event.
func (p *page) separate() {
	if p.count > 0 {
		p.events = append(p.events, ',')
	}
	p.count++
}

// wantedTypes is the filter of a reading; nil for all.
func (rd *Reading) wantedTypes() map[string]bool {
	if len(rd.Types) == 0 {
		return nil
	}
	wanted := map[string]bool{}
	for _, t := range rd.Types {
		wanted[t] = true
	}
	return wanted
}
