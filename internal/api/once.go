package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"reprise"
	"reprise/internal/memo"
	"reprise/internal/web"
)

// An append with an Idempotency-Key takes effect once: its request is the only one of a producer named by the key. A
// stream remembers a producer from the very commit of its append, but only the newest MaxProducers of them. So the
// answer is recorded too, for longer, before it is sent.

const (
	// keyAge is how long an Idempotency-Key of an append is remembered, keysPerTenant how many.
	keyAge        = 24 * time.Hour
	keysPerTenant = 100_000
	// maxKeyBytes is the size limit of an Idempotency-Key.
	maxKeyBytes = 255
	// eventAppended is the type of the records.
	eventAppended = "appended"
	// keyProducer begins the ids of the producers.
	keyProducer = "key-"
)

func openAppendKeys(log *reprise.Log, logger *slog.Logger) *memo.Book {
	return memo.New(log, memo.Options{
		Namespace: "appended:", Age: keyAge, Records: keysPerTenant,
		Hash: func(_ reprise.Tenant, name string) uint16 {
			sum := sha256.Sum256([]byte(name))
			return binary.BigEndian.Uint16(sum[:])
		},
		Early:  "Idempotency-Keys of appends are forgotten before their time: there are too many",
		Logger: logger,
	})
}

// keyed is an append under an Idempotency-Key.
type keyed struct {
	stream *reprise.Stream
	search *memo.Search
	name   string // of the key in this stream
	digest uint64 // of the request, 48 bits, which every store keeps exactly
}

// keyedRecord is what is remembered of a keyed append.
type keyedRecord struct {
	Digest uint64        `json:"d"`
	Epoch  reprise.Epoch `json:"e"`
	First  uint64        `json:"f"`
	Last   uint64        `json:"l"`
}

// appendOnce calls do, which appends as the given producer, unless an append under the Idempotency-Key of the request
// was already made: then it returns that one. Without a key, the producer is the one of the headers, or nil. body is
// the body of the request.
func (s *Server) appendOnce(x *web.Exchange, stream *reprise.Stream, body []byte,
	do func(*reprise.ProducerID) (reprise.Appended, error),
) (reprise.Appended, error) {
	key := x.R.Header.Get(idempotencyKeyHeader)
	producer, err := producerOf(x.R.Header)
	if err != nil || key == "" {
		if err == nil {
			return do(producer)
		}
		return reprise.Appended{}, err
	}
	switch {
	case producer != nil:
		err = web.Unprocessable(idempotencyKeyHeader, "an append has an Idempotency-Key or a producer, not both")
	case len(key) > maxKeyBytes:
		err = web.Unprocessable(idempotencyKeyHeader, fmt.Sprintf("a key is at most %d bytes long", maxKeyBytes))
	}
	if err != nil {
		return reprise.Appended{}, err
	}
	k := s.keyed(stream, key, x.R, body)
	ctx := x.R.Context()
	if a, done, err := k.recorded(ctx); done || err != nil {
		return a, err
	}
	a, done, err := k.appended(ctx)
	if !done && err == nil {
		a, err = do(&reprise.ProducerID{ID: keyProducer + k.name, Epoch: k.digest})
	}
	if errors.Is(err, reprise.ErrFenced) {
		err = errOtherRequest
	}
	if err != nil {
		return a, err
	}
	return a, s.record(context.WithoutCancel(ctx), k, a)
}

var errOtherRequest = fmt.Errorf("%w: the Idempotency-Key was used by another request", reprise.ErrConflict)

func (s *Server) keyed(stream *reprise.Stream, key string, r *http.Request, body []byte) *keyed {
	of := stream.Key()
	name := sha256.Sum256([]byte(of.Name + "\x00" + key))
	request := sha256.New()
	fmt.Fprintf(request, "%s\x00%s\x00%s\x00", r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"))
	request.Write(body)
	k := &keyed{
		stream: stream, name: base64.RawURLEncoding.EncodeToString(name[:]),
		digest: binary.BigEndian.Uint64(request.Sum(nil)) >> 16,
	}
	k.search = s.appendKeys.Search(of.Tenant, k.name)
	return k
}

// recorded returns the append that is recorded under the key. done is false if there is none.
func (k *keyed) recorded(ctx context.Context) (a reprise.Appended, done bool, err error) {
	records, err := k.search.Records(ctx)
	if err != nil || len(records) == 0 {
		return a, false, err
	}
	var r keyedRecord
	if _, data := memo.Parse(&records[len(records)-1]); json.Unmarshal(data, &r) != nil {
		return a, false, nil //nolint:nilerr // of a later version
	}
	if stands, err := k.stands(ctx, r); err != nil || !stands {
		return a, false, err
	}
	return k.answer(r)
}

// appended returns the append that the stream remembers under the key, which may not be recorded since a server died.
func (k *keyed) appended(ctx context.Context) (a reprise.Appended, done bool, err error) {
	info, err := k.stream.Info(ctx)
	if err != nil {
		return a, false, err
	}
	for i := range info.Producers {
		if p := &info.Producers[i]; p.ID == keyProducer+k.name {
			return k.answer(keyedRecord{Digest: p.Epoch, Epoch: info.Epoch, First: p.First, Last: p.Last})
		}
	}
	return a, false, nil
}

func (k *keyed) answer(r keyedRecord) (a reprise.Appended, done bool, err error) {
	if r.Digest != k.digest {
		return a, false, errOtherRequest
	}
	return reprise.Appended{First: r.First, Last: r.Last, Epoch: r.Epoch, Duplicate: true}, true, nil
}

// stands reports whether the events of a record are part of the stream's history. They are not if the stream was
// removed and made again, or if a promotion has taken them back.
func (k *keyed) stands(ctx context.Context, r keyedRecord) (bool, error) {
	reader, err := k.stream.Reader(ctx, reprise.After(k.stream.CursorIn(r.Epoch, r.Last)))
	if err == nil {
		return true, reader.Close()
	}
	if outside, ok := errors.AsType[*reprise.WindowError](err); ok {
		return outside.Reason == reprise.CursorExpired, nil
	}
	return false, err
}

// record remembers an append. After an error the request can be repeated: the stream knows its producer.
func (s *Server) record(ctx context.Context, k *keyed, a reprise.Appended) error {
	data, err := json.Marshal(keyedRecord{Digest: k.digest, Epoch: a.Epoch, First: a.First, Last: a.Last})
	if err != nil {
		return err
	}
	return s.appendKeys.Add(ctx, k.stream.Key().Tenant, memo.Record(eventAppended, time.Time{}, k.name, data))
}
