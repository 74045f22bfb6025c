package bench

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// dialNATS connects and makes a stream of JetStream for a subject, which names it. One for many subjects tells
// subscribers what it has stored.
func dialNATS(ctx context.Context, server, subject string) (*nats.Conn, jetstream.JetStream, error) {
	conn, err := nats.Connect(server)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(256))
	name, many := strings.CutSuffix(subject, ".>")
	config := jetstream.StreamConfig{Name: name, Subjects: []string{subject}}
	if many {
		config.RePublish = &jetstream.RePublish{Source: subject, Destination: "STORED." + subject, HeadersOnly: true}
	}
	if err == nil {
		_, err = js.CreateStream(ctx, config)
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, js, nil
}

// publish publishes messages without waiting for each, and then for all acknowledgements.
func publish(ctx context.Context, js jetstream.JetStream, name string, messages int, data []byte) error {
	all := make([]jetstream.PubAckFuture, messages)
	for i := range all {
		var err error
		if all[i], err = js.PublishAsync(name, data); err != nil {
			return err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, one := range all {
		if _, err := acknowledgement(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// natsPublish publishes messages of so many events to a stream.
func natsPublish(name string, batch int) func(context.Context, Scale, string) (Runner, error) {
	return func(ctx context.Context, scale Scale, server string) (Runner, error) {
		conn, js, err := dialNATS(ctx, server, name)
		if err != nil {
			return nil, err
		}
		messages := scale.Of(15_000, 200)
		if batch == 1 {
			messages = scale.Of(100_000, 2000)
		}
		data := bytes.Repeat(newPayload(), batch)
		return closing{func(ctx context.Context) (Sample, error) {
			start := time.Now()
			err := publish(ctx, js, name, messages, data)
			took, n := time.Since(start).Seconds(), float64(messages*batch)
			if err == nil {
				var stream jetstream.Stream
				if stream, err = js.Stream(ctx, name); err == nil {
					err = stream.Purge(ctx)
				}
			}
			return Sample{"events/s": n / took, "us/event": took * 1e6 / n}, err
		}, func() error { conn.Close(); return nil }}, nil
	}
}

// natsConditional publishes in rounds of fifty messages to as many subjects, each on condition that it follows the one
// before, to a stream that tells subscribers what it has stored. That is what replicas need that write to the same
// streams.
func natsConditional(ctx context.Context, scale Scale, server string) (Runner, error) {
	const name, subjects = "CONDITIONAL", engineAppenders / 2
	conn, js, err := dialNATS(ctx, server, name+".>")
	if err != nil {
		return nil, err
	}
	data, rounds := bytes.Repeat(newPayload(), 100), scale.Of(200, 4)
	var last [subjects]uint64
	return closing{func(ctx context.Context) (Sample, error) {
		start := time.Now()
		for range rounds {
			var all [subjects]jetstream.PubAckFuture
			for i := range all {
				subject := name + "." + strconv.Itoa(i)
				if all[i], err = js.PublishAsync(subject, data,
					jetstream.WithExpectLastSequencePerSubject(last[i])); err != nil {
					return nil, err
				}
			}
			for i := range all {
				if last[i], err = acknowledgement(ctx, all[i]); err != nil {
					return nil, err
				}
			}
		}
		took, n := time.Since(start).Seconds(), float64(rounds*subjects*100)
		return Sample{"events/s": n / took, "us/event": took * 1e6 / n}, nil
	}, func() error { conn.Close(); return nil }}, nil
}

// acknowledgement waits for the answer to a message and returns its sequence.
func acknowledgement(ctx context.Context, f jetstream.PubAckFuture) (uint64, error) {
	select {
	case ack := <-f.Ok():
		return ack.Sequence, nil
	case err := <-f.Err():
		return 0, err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// natsConsume reads messages of one event each with an ordered consumer.
func natsConsume(ctx context.Context, scale Scale, server string) (Runner, error) {
	const name = "MESSAGES"
	conn, js, err := dialNATS(ctx, server, name)
	if err != nil {
		return nil, err
	}
	events := engineHistory(scale)
	if err := publish(ctx, js, name, events, newPayload()); err != nil {
		conn.Close()
		return nil, err
	}
	return closing{replayLap(events, func(ctx context.Context) (n int, err error) {
		consumer, err := js.OrderedConsumer(ctx, name, jetstream.OrderedConsumerConfig{})
		if err != nil {
			return 0, err
		}
		messages, err := consumer.Messages(jetstream.PullMaxMessages(5000))
		if err != nil {
			return 0, err
		}
		defer messages.Stop()
		for n < events {
			if _, err := messages.Next(jetstream.NextContext(ctx)); err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}), func() error { conn.Close(); return nil }}, nil
}

// natsWake publishes to a stream, with a plain subscriber of its subject on another connection. That one may hear
// of the message before it is stored, so that the acknowledgement counts too.
func natsWake(ctx context.Context, scale Scale, server string) (Runner, error) {
	const name = "WAKE"
	from, js, err := dialNATS(ctx, server, name)
	if err != nil {
		return nil, err
	}
	to, err := nats.Connect(server)
	if err != nil {
		from.Close()
		return nil, err
	}
	closeAll := func() error { to.Close(); from.Close(); return nil }
	heard := make(chan time.Time, 1)
	_, err = to.Subscribe(name, func(*nats.Msg) { heard <- time.Now() })
	if err == nil {
		err = to.Flush()
	}
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	payload := newPayload()
	return closing{wakeLap(scale, heard, func(ctx context.Context) (time.Time, error) {
		_, err := js.Publish(ctx, name, payload)
		return time.Now(), err
	}), closeAll}, nil
}
