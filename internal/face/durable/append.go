package durable

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"reprise"
	"reprise/internal/identity"
	"reprise/internal/problem"
	"reprise/internal/web"
)

// addition is what a POST asks for.
type addition struct {
	events   []reprise.Event
	close    bool
	producer *reprise.ProducerID
	// seq is the header Stream-Seq, "" for none.
	seq string
}

// append answers a POST.
func (a API) append(x *web.Exchange) error {
	s, err := a.asked(x, identity.ScopePublish)
	if err != nil {
		return err
	}
	h := x.R.Header
	add := addition{close: strings.EqualFold(h.Get(closed), isTrue), seq: h.Get(seqName)}
	if add.producer, err = parseProducer(h); err != nil {
		return err
	}
	if len(add.seq) > maxSeq {
		return web.BadRequest(seqName, fmt.Sprintf("at most %d bytes are taken", maxSeq))
	}
	body, err := x.ReadBody(maxBody)
	if err != nil {
		return err
	}
	switch given := h.Get("Content-Type"); {
	case len(body) == 0 && !add.close:
		return web.BadRequest("", "the body is empty, and the stream is not to be closed")
	case len(body) == 0:
	case given == "":
		return web.BadRequest("Content-Type", "it is needed")
	case mediaType(given) != mediaType(s.meta.ContentType):
		if s.info.End != nil {
			return s.refuseClosed(x)
		}
		return conflict("the stream has the content type %s", s.meta.ContentType)
	default:
		if add.events, err = messages(s.meta.ContentType, body); err != nil {
			return err
		}
		if len(add.events) == 0 {
			return web.BadRequest("", "the array is empty")
		}
	}
	if s.info.End != nil && add.producer == nil {
		return s.late(x, &add)
	}
	if err := s.use(x.R.Context()); err != nil {
		return err
	}
	return s.add(x, &add)
}

// maxSeq bounds the header Stream-Seq, in bytes.
const maxSeq = 1 << 10

// parseProducer reads the headers of a producer: all three or none.
func parseProducer(h http.Header) (*reprise.ProducerID, error) {
	ids, epoch, seq := h.Values(producerID), h.Get(producerEpoch), h.Get(producerSeq)
	if len(ids) == 0 && epoch == "" && seq == "" {
		return nil, nil
	}
	if len(ids) == 0 || ids[0] == "" || epoch == "" || seq == "" {
		return nil, web.BadRequest(producerID, producerID+", "+producerEpoch+" and "+producerSeq+" belong together")
	}
	p := &reprise.ProducerID{ID: storedID(ids[0])}
	for _, number := range []struct {
		name, text string
		value      *uint64
	}{{producerEpoch, epoch, &p.Epoch}, {producerSeq, seq, &p.Seq}} {
		var ok bool
		if *number.value, ok = decimal(number.text); !ok || *number.value > maxNumber {
			return nil, web.BadRequest(number.name, "a number up to 2^53-1 is taken, without a sign or leading zeros")
		}
	}
	return p, nil
}

// maxNumber is the highest number of a producer, which is what JavaScript can count to.
const maxNumber = 1<<53 - 1

// guardID is the id of the guard that numbers the appends with a Stream-Seq; no producer has it.
const guardID = "durable/" + typeSeq

// storedID returns the id under which the Log remembers a producer, whose own may have any length.
func storedID(id string) string {
	if len(id) <= 56 {
		return "durable:" + id
	}
	sum := sha256.Sum256([]byte(id))
	return "durable." + base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])
}

// known returns the newest append of a producer or guard; its ID is "" if there is none.
func (s *stream) known(id string) reprise.Producer {
	for _, p := range s.info.Producers {
		if p.ID == id {
			return p
		}
	}
	return reprise.Producer{}
}

// maxTries bounds how often an append with a Stream-Seq is overtaken by others.
const maxTries = 32

// add appends, and answers.
func (s *stream) add(x *web.Exchange, add *addition) error {
	for range maxTries {
		appended, guard, err := s.try(x.R.Context(), add)
		if err == nil {
			return s.answer(x, add, &appended)
		}
		if looked := s.look(x.R.Context()); looked != nil {
			return cmp.Or(err, looked)
		}
		switch {
		case errors.Is(err, reprise.ErrEnded):
			return s.late(x, add)
		case errors.Is(err, reprise.ErrInvalid):
			return tooMuch(err)
		case errors.Is(err, reprise.ErrFenced) && add.producer != nil:
			x.W.Header().Set(producerEpoch, strconv.FormatUint(s.known(add.producer.ID).Epoch, 10))
			p := problem.From(err)
			p.Status = http.StatusForbidden
			return p
		case !errors.Is(err, reprise.ErrConflict):
			return err
		case guard != nil && s.known(guardID).Seq >= guard.Seq && s.known(guardID).ID != "":
			continue // another append with a Stream-Seq was first
		}
		return s.refuseNumber(x, add, err)
	}
	return fmt.Errorf("%w: other writers were ahead %d times", reprise.ErrUnavailable, maxTries)
}

// try appends once. guard is what the append relied on, nil for none.
func (s *stream) try(ctx context.Context, add *addition) (a reprise.Appended, guard *reprise.ProducerID, err error) {
	events := add.events
	opts := reprise.AppendOptions{Producer: add.producer}
	if add.seq != "" && !s.repeats(add.producer) {
		last, err := s.lastSeq(ctx)
		if err != nil {
			return a, nil, err
		}
		if s.info.End != nil {
			return a, nil, reprise.ErrEnded
		}
		if last != nil && add.seq <= string(last) {
			return a, nil, conflict("%s %q is not above %q, the last one", seqName, add.seq, last)
		}
		guard = &reprise.ProducerID{ID: guardID}
		if known := s.known(guardID); known.ID != "" {
			guard.Seq = known.Seq + 1
		}
		opts.Guard = guard
		events = append([]reprise.Event{{Type: typeSeq, Data: []byte(add.seq)}}, events...)
	}
	if add.close {
		a, err = s.EndWith(ctx, opts, outcomeClosed, append(events, reprise.Event{})...)
	} else {
		a, err = s.AppendWith(ctx, opts, events...)
	}
	return a, guard, err
}

// repeats reports whether an append of a producer is known to the stream.
func (s *stream) repeats(p *reprise.ProducerID) bool {
	if p == nil {
		return false
	}
	known := s.known(p.ID)
	return known.ID != "" && known.Epoch == p.Epoch && p.Seq <= known.Seq
}

// lastSeq returns the Stream-Seq of the newest append that has one, nil if there is none, or it is no longer kept.
func (s *stream) lastSeq(ctx context.Context) ([]byte, error) {
	known := s.known(guardID)
	if known.ID == "" || known.First < s.info.Earliest {
		return nil, nil
	}
	reader, err := s.Reader(ctx, reprise.After(s.Cursor(known.First-1)))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	events, err := reader.Poll(ctx)
	if err != nil {
		return nil, err
	}
	for e := range events.All() {
		return e.Data, nil
	}
	return nil, fmt.Errorf("%w: event %d is missing", reprise.ErrUnavailable, known.First)
}

// answer answers an append that the stream has.
func (s *stream) answer(x *web.Exchange, add *addition, a *reprise.Appended) error {
	h := x.W.Header()
	if a.Duplicate || add.producer != nil {
		if err := s.look(x.R.Context()); err != nil {
			return err
		}
	}
	if p := add.producer; p != nil {
		h.Set(producerEpoch, strconv.FormatUint(p.Epoch, 10))
		h.Set(producerSeq, strconv.FormatUint(max(p.Seq, s.known(p.ID).Seq), 10))
	}
	if a.Duplicate {
		s.tell(h)
		return x.Done()
	}
	last := a.Last
	if add.close {
		last--
		h.Set(closed, isTrue)
	}
	h.Set(nextOffset, offsetOf(last+s.meta.base()))
	if add.producer == nil || len(add.events) == 0 {
		return x.Done()
	}
	x.W.WriteHeader(http.StatusOK)
	return nil
}

// late answers what comes after the end: closing again changes nothing.
func (s *stream) late(x *web.Exchange, add *addition) error {
	if len(add.events) > 0 || add.producer != nil {
		return s.refuseClosed(x)
	}
	s.tell(x.W.Header())
	return x.Done()
}

// refuseClosed refuses an append to a closed stream.
func (s *stream) refuseClosed(x *web.Exchange) error {
	s.tell(x.W.Header())
	return conflict("the stream is closed")
}

// refuseNumber says what is wrong with the number of a producer.
func (s *stream) refuseNumber(x *web.Exchange, add *addition, err error) error {
	p := add.producer
	if s.info.End != nil {
		return s.refuseClosed(x)
	}
	if p == nil || s.repeats(p) {
		return err
	}
	known, next := s.known(p.ID), uint64(0)
	if known.ID != "" && known.Epoch == p.Epoch {
		next = known.Seq + 1
	}
	switch {
	case p.Seq == next:
		return err // of the Stream-Seq
	case known.ID != "" && p.Epoch > known.Epoch:
		return web.BadRequest(producerSeq, "a new epoch begins with 0")
	}
	x.W.Header().Set(producerExpected, strconv.FormatUint(next, 10))
	x.W.Header().Set(producerReceived, strconv.FormatUint(p.Seq, 10))
	return conflict("the producer goes on with %d, not %d", next, p.Seq)
}
