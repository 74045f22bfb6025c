package natsstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"reprise"
	"reprise/store/internal/driver"
)

// Store is a reprise.Store in NATS JetStream. It is safe for concurrent use. Any number of Stores may share the same
// JetStream streams. It also implements reprise.Concurrent, reprise.Watcher, reprise.Sweeper and reprise.Sizer.
type Store struct {
	subjects subjects
	name     string // of the JetStream stream with the events
	index    string // of the one with the index
	api      string // prefix of the subjects of JetStream, with the dot at its end
	timeout  time.Duration
	logger   *slog.Logger
	writer   writerID
	// single is true if only one server has the streams, so that any answer is up to date.
	single bool
	// restartKeeps is Options.RestartKeeps.
	restartKeeps bool
	// room is the maximum size of a message body.
	room  int
	wire  *wire
	js    jetstream.JetStream
	boot  boot
	cache cache
	tidy  tidy
	watch watch

	// use is held for reading by each call, and for writing by Close.
	use driver.Gate
	// changing is held whole while the configuration of a stream changes, and in part by each Append: a change takes
	// more round trips, so that it would lose each race against the appends of a busy stream.
	changing *semaphore.Weighted
}

const (
	// maxBody is the maximum size of a message body, even if the server allows more.
	maxBody = 1 << 20
	// headRoom is reserved in each message for its headers.
	headRoom = 32 << 10
	// leastPayload is the max_payload that the server must allow, so that the largest configuration of a stream fits.
	leastPayload = 192 << 10
	// maxAppends is the maximum number of calls of Append at a time, more than there will be.
	maxAppends = 1 << 30
)

// Open connects to a NATS server and creates the JetStream streams if they do not exist. The URL is
// nats://[user:password@]host:port, or tls://. Several URLs, separated by commas, name servers of one cluster. The
// query may hold the parameters of Options and also "creds" (a credentials file), "ca" (a certificates file) and "cert"
// (two files, separated by a comma). opts may be nil.
//
// The error wraps reprise.ErrInvalid if the URL or the server is unsuitable or the server rejects the login, and
// reprise.ErrUnavailable if the server cannot be reached.
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
		timeout: set.Timeout, logger: set.Logger, restartKeeps: set.RestartKeeps,
		changing: semaphore.NewWeighted(maxAppends),
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

// connectError describes why there is no connection, without quoting the URL.
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
	s.single = true
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
		s.single = s.single && have.Replicas <= 1
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

// checkServer rejects a server that lacks a required feature.
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

// makeStream creates a JetStream stream if it does not exist, and returns its actual configuration. It waits for a
// cluster that has no leader yet.
func (s *Store) makeStream(ctx context.Context, want *jetstream.StreamConfig) (*jetstream.StreamConfig, error) {
	for {
		have, err := s.tryStream(ctx, want)
		switch {
		case err == nil:
			config := have.CachedInfo().Config
			return &config, unfit(&config, want)
		case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
			continue // another replica has just created it
		case errors.Is(err, jetstream.ErrJetStreamNotEnabled),
			errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return nil, fmt.Errorf("%w: JetStream is not enabled on the NATS server", reprise.ErrInvalid)
		}
		if errors.Is(err, nats.ErrNoResponders) {
			err = fmt.Errorf("no response: is JetStream enabled? %w", err)
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

// tryStream looks up a JetStream stream and creates it if it does not exist. It waits no longer than askAgain.
func (s *Store) tryStream(ctx context.Context, want *jetstream.StreamConfig) (jetstream.Stream, error) {
	ctx, cancel := withTimeout(ctx, askAgain)
	defer cancel()
	have, err := s.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return s.js.CreateStream(ctx, *want)
	}
	return have, err
}

// enter begins a call. If the error is nil, the call must use the bounded context and end with leave, which releases
// s.use and the context.
func (s *Store) enter(ctx context.Context) (bounded context.Context, leave func(), err error) {
	return s.enterFor(ctx, s.timeout)
}

// enterFor is enter with another bound than the timeout of the Store.
func (s *Store) enterFor(ctx context.Context, timeout time.Duration) (
	bounded context.Context, leave func(), err error,
) {
	if err := s.use.Enter(ctx); err != nil {
		return nil, nil, err
	}
	bounded, cancel := withTimeout(ctx, timeout)
	return bounded, func() {
		cancel()
		s.use.Leave()
	}, nil
}

// Close ends the connection; see reprise.Store.
func (s *Store) Close() (err error) {
	defer func() { err = storeError(context.Background(), err) }()
	if !s.use.Close() {
		return nil
	}
	s.tidy.stop()
	s.watch.end()
	s.wire.close()
	return nil
}
