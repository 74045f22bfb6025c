// Package kafkaarchive writes archived streams to a topic of Apache Kafka, for others to read. A topic
// is written only: nothing here reads streams back from it.
//
// One Put of a stream is a run of records with the same key, the name of the tenant, a slash and the
// name of the stream, and so in one partition and in order. Their headers are
//
//	reprise  the version of this format, "1"
//	kind     "stream", "batch" or "end"
//	epoch    the epoch of the stream
//	put      a random text, the same for all records of one Put
//
// First comes the "stream": the JSON of archive.MarshalInfo. Then comes each batch, with the headers
//
//	first    the seq of its first event
//	count    the number of its events
//
// Both are cut into records of at most 512 KiB, with the headers
//
//	part     "1/3" for the first of three
//	crc      CRC-32C of the whole of them, eight hexadecimal digits
//
// The last record is of the kind "end"; its value is
// the JSON {"batches":3,"events":120,"bytes":4711,"sha256":"..."}, with the SHA-256 of the bytes of all batches.
//
// A stream is archived whole once its "end" is there. Records of other streams and of other Puts may
// lie in between. A Put that failed leaves records without an "end", of no use; a stream may be put more
// than once, and then any Put that is whole will do.
package kafkaarchive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"reprise"
	"reprise/internal/border"
)

// Options are the settings of Open. The zero value of each field means its default.
type Options struct {
	// Timeout limits the check of the topic, and the time until a record is acknowledged, at least 1 second. Default:
	// 10 seconds.
	Timeout time.Duration
	// PutTimeout limits the time for one stream. Default: 10 minutes.
	PutTimeout time.Duration
	// BufferBytes is the maximum number of unacknowledged bytes, of all streams that are archived at a time. Default:
	// 16 MiB.
	BufferBytes int
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Timeout <= 0 {
		d.Timeout = 10 * time.Second
	}
	d.Timeout = max(d.Timeout, time.Second)
	if d.PutTimeout <= 0 {
		d.PutTimeout = 10 * time.Minute
	}
	if d.BufferBytes <= 0 {
		d.BufferBytes = 16 << 20
	}
	return d
}

// Topic is an archive.Sink. It is safe for concurrent use.
type Topic struct {
	client *kgo.Client
	opts   Options
}

// Open connects to the brokers of the URL, and to the topic there, which must exist:
//
//	kafka://HOST:PORT,HOST:PORT/TOPIC?tls=true
//
// The error wraps reprise.ErrInvalid for a URL that cannot be one and for a topic that does not exist.
func Open(ctx context.Context, topicURL string, opts *Options) (*Topic, error) {
	brokers, topic, tls, err := parse(topicURL)
	if err != nil {
		return nil, err
	}
	t := &Topic{opts: opts.withDefaults()}
	kafka := []kgo.Opt{
		kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(topic), kgo.ClientID("reprise"),
		kgo.MaxBufferedBytes(t.opts.BufferBytes), kgo.RecordDeliveryTimeout(t.opts.Timeout),
		// A record that was given up may be there, but then its Put has no end.
		kgo.AllowIdempotentProduceCancellation(),
	}
	if tls {
		kafka = append(kafka, kgo.DialTLS())
	}
	if t.client, err = kgo.NewClient(kafka...); err != nil {
		return nil, fmt.Errorf("%w: %v", reprise.ErrInvalid, err)
	}
	if err := t.find(ctx, topic); err != nil {
		t.client.Close()
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	return t, nil
}

// find verifies that the topic exists.
func (t *Topic) find(ctx context.Context, topic string) error {
	bounded, stop := context.WithTimeout(ctx, t.opts.Timeout)
	defer stop()
	topics, err := kadm.NewClient(t.client).ListTopics(bounded, topic)
	if err != nil {
		return topicError(ctx, err)
	}
	if !topics.Has(topic) {
		return fmt.Errorf("%w: there is no such topic", reprise.ErrInvalid)
	}
	return nil
}

// parse takes a URL apart. Package net/url knows no lists of hosts.
func parse(topicURL string) (brokers []string, topic string, tls bool, err error) {
	rest, isKafka := strings.CutPrefix(topicURL, "kafka://")
	rest, parameters, _ := strings.Cut(rest, "?")
	hosts, topic, _ := strings.Cut(rest, "/")
	query, err := url.ParseQuery(parameters)
	for name, values := range query {
		if name != "tls" || len(values) != 1 || values[0] != "true" && values[0] != "false" {
			err = errors.New("unknown parameter")
		}
	}
	brokers = strings.Split(hosts, ",")
	for _, broker := range brokers {
		if host, port, splitErr := net.SplitHostPort(broker); splitErr != nil || host == "" || port == "" ||
			strings.Contains(broker, "@") {
			err = errors.New("no broker")
		}
	}
	if !isKafka || err != nil || topic == "" || strings.Contains(topic, "/") {
		return nil, "", false,
			fmt.Errorf("%w: want kafka://HOST:PORT,HOST:PORT/TOPIC?tls=true, without credentials", reprise.ErrInvalid)
	}
	return brokers, topic, query.Get("tls") == "true", nil
}

// topicError maps each error of the client that leaves the Topic; see package border. ctx is that of the caller,
// without our own bound.
func topicError(ctx context.Context, err error) error {
	if errors.Is(err, kgo.ErrClientClosed) {
		err = reprise.ErrClosed
	}
	if refused, ok := errors.AsType[*kerr.Error](err); ok && !refused.Retriable {
		err = fmt.Errorf("%w: %w", errRefused, err)
	}
	return border.Error(ctx, err, errRefused)
}

// errRefused: the broker refuses, and will again.
var errRefused = errors.New("the broker refuses")

// Has says no: a topic cannot be asked.
func (t *Topic) Has(ctx context.Context, _ reprise.StreamInfo) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return false, nil
}

// Close closes the connections. Puts under way fail with an error that wraps reprise.ErrClosed.
func (t *Topic) Close() error {
	t.client.Close()
	return nil
}
