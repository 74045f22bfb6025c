package natsstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"reprise"
)

// Store is a reprise.Store in NATS JetStream. It is safe for concurrent use, and any number of them may share the
// same place. It is also a reprise.Concurrent, a reprise.Watcher, a reprise.Sweeper and a reprise.Sizer.
type Store struct {
	subjects subjects
	name     string // of the JetStream stream with the events
	index    string // of the one with the index
	api      string // prefix of the subjects of JetStream, with the dot at its end
	timeout  time.Duration
	logger   *slog.Logger
	writer   writerID
	// single says that there is one server alone that has the streams, so that any answer is the newest.
	single bool
	// room is how large the body of a message may be.
	room  int
	wire  *wire
	js    jetstream.JetStream
	cache cache
	tidy  tidy
	watch watch

	// use is held for reading by each call, and for writing by Close.
	use    sync.RWMutex
	closed bool
}

const (
	// maxBody is how large the body of a message gets at most, whatever the server allows.
	maxBody = 1 << 20
	// headRoom is kept free in each message for its headers.
	headRoom = 32 << 10
	// leastPayload is what the server must allow, for the largest configuration of a stream to fit.
	leastPayload = 192 << 10
)

// Open connects to a server of NATS and makes the streams of JetStream where they are not there. The URL is
// nats://[user:password@]host:port, or tls://; several with commas between them are servers of one
// cluster. Its query may hold parameters; see Options, and beside those there
// "creds" (a file of credentials), "ca" (a file of certificates) and "cert" (two files, with a comma). opts may be nil.
//
// The error wraps reprise.ErrInvalid where the URL or the server will not do or the server refuses the login, and
// reprise.ErrUnavailable where the server is not there.
func Open(ctx context.Context, url string, opts *Options) (_ *Store, err error) {
	defer func(caller context.Context) { err = storeError(caller, err) }(ctx)
	set, err := parse(url, opts)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, cancel := withTimeout(ctx, set.Timeout)
	defer cancel()
	s := &Store{
		subjects: subjects{set.Name}, name: set.Name, index: set.Name + "_INDEX", api: "$JS.API.",
		timeout: set.Timeout, logger: set.Logger,
	}
	if set.Domain != "" {
		s.api = "$JS." + set.Domain + ".API."
	}
	rand.Read(s.writer[:])
	if s.wire, err = connect(ctx, set); err != nil {
		return nil, connectError(err)
	}
	if err := s.start(ctx, set); err != nil {
		s.wire.close()
		return nil, err
	}
	return s, nil
}

// connectError says why there is no connection, without the URL.
func connectError(err error) error {
	if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) {
		return fmt.Errorf("%w: NATS refuses the login: %w", reprise.ErrInvalid, err)
	}
	return unavailable(fmt.Errorf("NATS: %w", err))
}

func (s *Store) start(ctx context.Context, set *settings) error {
	if err := s.checkServer(); err != nil {
		return err
	}
	var err error
	if set.Domain != "" {
		s.js, err = jetstream.NewWithDomain(s.wire.nc, set.Domain)
	} else {
		s.js, err = jetstream.New(s.wire.nc)
	}
	if err != nil {
		return err
	}
	events, index := set.streamConfigs()
	for _, want := range []*jetstream.StreamConfig{&events, &index} {
		have, err := s.makeStream(ctx, want)
		if err != nil {
			return err
		}
		if have.MaxMsgSize > 0 {
			s.room = min(s.room, int(have.MaxMsgSize)-headRoom)
		}
		if have.Replicas != want.Replicas {
			s.logger.Warn("the JetStream stream is there with another number of replicas", "stream", have.Name,
				"has", have.Replicas, "asked", want.Replicas)
		}
		s.single = have.Replicas <= 1
	}
	if s.room < leastPayload-headRoom {
		return fmt.Errorf("%w: the JetStream streams bound messages to less than %d bytes",
			reprise.ErrInvalid, leastPayload)
	}
	if s.single && !set.Memory {
		s.logger.Warn("one NATS server keeps the events: unless it runs with sync_interval: always, which a client cannot see, " +
			"a loss of power may take back what was acknowledged in the last two minutes")
	}
	s.cache.init()
	s.tidy.start(s)
	return s.watch.start(s)
}

// checkServer refuses a server that lacks what is needed.
func (s *Store) checkServer() error {
	nc := s.wire.nc
	if major, minor := version(nc.ConnectedServerVersion()); major < 2 || major == 2 && minor < 11 {
		return fmt.Errorf("%w: NATS server %s; 2.11 or later is needed",
			reprise.ErrInvalid, nc.ConnectedServerVersion())
	}
	if nc.MaxPayload() < leastPayload {
		return fmt.Errorf("%w: the NATS server takes messages of %d bytes; max_payload must be %d at least",
			reprise.ErrInvalid, nc.MaxPayload(), leastPayload)
	}
	s.room = int(min(nc.MaxPayload(), maxBody)) - headRoom
	return nil
}

func version(text string) (major, minor int) {
	_, _ = fmt.Sscanf(text, "%d.%d", &major, &minor)
	return major, minor
}

// makeStream makes a stream where it is not there, and returns it as it is. A cluster that has no leader yet is
// waited for.
func (s *Store) makeStream(ctx context.Context, want *jetstream.StreamConfig) (*jetstream.StreamConfig, error) {
	for {
		have, err := s.tryStream(ctx, want)
		switch {
		case err == nil:
			config := have.CachedInfo().Config
			return &config, unfit(&config, want)
		case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
			continue // somebody else has just made it
		case errors.Is(err, jetstream.ErrJetStreamNotEnabled),
			errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return nil, fmt.Errorf("%w: JetStream is not enabled on the NATS server", reprise.ErrInvalid)
		}
		if errors.Is(err, nats.ErrNoResponders) {
			err = fmt.Errorf("nobody answers: is JetStream enabled? %w", err)
		}
		failed := unavailable(fmt.Errorf("JetStream stream %s: %w", want.Name, err))
		if !isPassing(err) {
			return nil, failed
		}
		if err := pause(ctx, retryEvery); err != nil {
			if errors.Is(err, errTimeout) {
				return nil, failed
			}
			return nil, err
		}
	}
}

// tryStream asks for a stream, and for a new one where it is not there. It waits no longer than askAgain.
func (s *Store) tryStream(ctx context.Context, want *jetstream.StreamConfig) (jetstream.Stream, error) {
	ctx, cancel := withTimeout(ctx, askAgain)
	defer cancel()
	have, err := s.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return s.js.CreateStream(ctx, *want)
	}
	return have, err
}

// enter readies s for a call, which is then bounded by the context that is returned. Where the error is nil, the
// caller ends with s.use.RUnlock and cancel.
func (s *Store) enter(ctx context.Context) (bounded context.Context, leave func(), err error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	s.use.RLock()
	if s.closed {
		s.use.RUnlock()
		return nil, nil, reprise.ErrClosed
	}
	bounded, cancel := withTimeout(ctx, s.timeout)
	return bounded, func() {
		cancel()
		s.use.RUnlock()
	}, nil
}

// Close ends the connection; see reprise.Store.
func (s *Store) Close() (err error) {
	defer func() { err = storeError(context.Background(), err) }()
	s.use.Lock()
	defer s.use.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.tidy.stop()
	s.watch.end()
	s.wire.close()
	return nil
}
