package replica

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"reprise"
)

// Tenant owns the streams by which replicas find each other.
const Tenant = reprise.SystemTenant

const (
	beatNamespace  = "replica:"
	inboxNamespace = "inbox:"
	// keepEnded is how long the streams of a replica that has gone are kept.
	keepEnded = 10 * time.Minute
)

// Options are the settings of a Member. The zero value of each field means its default.
type Options struct {
	// Name begins the name of the replica; a random part follows. It is 1 to 48 bytes of
	// letters, digits, '.', '_' and '-'. Default: "replica".
	Name string
	// Beat is the time between two heartbeats, and between two checks of the others. Default: 2 s.
	Beat time.Duration
	// TTL is how long a replica may go without a heartbeat before it is declared dead. It must be
	// the same on all replicas, and at least three times Beat. Default: 10 s.
	TTL time.Duration
	// CallTimeout limits calls whose context allows more. Default: 10 s.
	CallTimeout time.Duration
	// MaxServing is the maximum number of calls that are served at a time; more
	// are refused with reprise.ErrUnavailable. Default: 256.
	MaxServing int
	// Logger receives changes of membership and errors. Default: silent.
	Logger *slog.Logger
}

func (o *Options) withDefaults() (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	d.Name = cmp.Or(d.Name, "replica")
	d.Beat = cmp.Or(d.Beat, 2*time.Second)
	d.TTL = cmp.Or(d.TTL, 10*time.Second)
	d.CallTimeout = cmp.Or(d.CallTimeout, 10*time.Second)
	d.MaxServing = cmp.Or(d.MaxServing, 256)
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if len(d.Name) > 48 {
		return d, fmt.Errorf("%w: a replica's name begins with at most 48 bytes", reprise.ErrInvalid)
	}
	if d.Beat < 0 || d.TTL < 3*d.Beat {
		return d, fmt.Errorf("%w: a TTL of %s for beats every %s, three of them at least are needed",
			reprise.ErrInvalid, d.TTL, d.Beat)
	}
	return d, streamKey(beatNamespace, d.Name).Validate()
}

// Member is this process as a replica. It is safe for concurrent use.
type Member struct {
	log  *reprise.Log
	opts Options

	ctx   context.Context // the time of membership
	stop  context.CancelCauseFunc
	tasks sync.WaitGroup

	looking chan struct{} // holds a token during a look

	mu       sync.Mutex
	life     *life // nil while it joins again, and after the end
	peers    map[string]*peer
	lastLook time.Time // start of the last successful look
	lastBeat time.Time // last acknowledged heartbeat
	lostBeat time.Time // last heartbeat that failed
	watches  map[*Watch]bool
	services map[string]Handler
}

// life is a Member under one name.
type life struct {
	name  string
	beats *reprise.Stream
	inbox *reprise.Stream

	ctx context.Context // until the Member ends or the name is taken for dead
	end context.CancelCauseFunc

	mu      sync.Mutex
	pending map[string]*pending           // outgoing calls, by id
	serving map[string]context.CancelFunc // incoming calls
}

// Watch contains functions that are called on changes of membership. Each may be nil. They are called by
// the goroutine that noticed, so they must be quick and must not call Look, Leave or Close.
type Watch struct {
	// Left is called when another replica has left or was declared dead, once for each name.
	Left func(name string)
	// Fenced is called when this replica itself was declared dead under a name, because it
	// stood still or could not reach the store. Others may have taken over what it owned.
	Fenced func(name string)
	// Joined is called when this replica has joined again after that, under a new name.
	Joined func(name string)
}

// Join makes this process a replica of those that share the Store of log, which must be
// closed after the Member. When it returns, the others can see this replica, and it knows the
// others. The error is reprise.ErrInvalid for invalid options, or comes from the Log. opts may be nil.
func Join(ctx context.Context, log *reprise.Log, opts *Options) (*Member, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	m := &Member{
		log: log, opts: o, looking: make(chan struct{}, 1),
		peers: map[string]*peer{}, watches: map[*Watch]bool{}, services: map[string]Handler{},
	}
	m.ctx, m.stop = context.WithCancelCause(context.Background())
	if err = m.begin(ctx); err == nil {
		err = m.Look(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("join: %w", err), m.Close())
	}
	m.tasks.Go(m.run)
	m.tasks.Go(m.lookEvery)
	return m, nil
}

func streamKey(namespace, name string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: Tenant, Name: namespace + name}
}

// begin creates the streams of a new name.
func (m *Member) begin(ctx context.Context) error {
	lf := &life{
		name:    m.opts.Name + "-" + strings.ToLower(rand.Text()[:10]),
		pending: map[string]*pending{}, serving: map[string]context.CancelFunc{},
	}
	var err error
	// Create the inbox first: any replica that sees this one can call it.
	lf.inbox, _, err = m.log.Create(ctx, streamKey(inboxNamespace, lf.name), reprise.StreamConfig{
		Retention: reprise.Retention{MaxEvents: 10_000, MaxBytes: 32 << 20, MaxAge: keepEnded},
	})
	if err != nil {
		return err
	}
	lf.beats, _, err = m.log.Create(ctx, streamKey(beatNamespace, lf.name), reprise.StreamConfig{
		Retention: reprise.Retention{MaxEvents: 4, MaxBytes: 64 << 10, MaxAge: keepEnded},
	})
	if err != nil {
		return errors.Join(err, m.log.Remove(ctx, lf.inbox.Key()))
	}
	reader, err := lf.inbox.Reader(ctx, reprise.Earliest())
	if err != nil {
		return err
	}
	lf.ctx, lf.end = context.WithCancelCause(m.ctx)
	m.mu.Lock()
	m.life, m.lastBeat = lf, time.Now()
	m.mu.Unlock()
	m.tasks.Go(func() { m.receive(lf, reader) })
	m.opts.Logger.Info("replica joined", "replica", lf.name)
	return nil
}

// Name returns the name of this replica. It is "" after the replica was declared dead
// and before it has joined again, and after Leave or Close.
func (m *Member) Name() string {
	if lf := m.current(); lf != nil {
		return lf.name
	}
	return ""
}

// current returns the present life, or nil.
func (m *Member) current() *life {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.life
}

// Watch calls the functions of w until stop is called; one more call may happen while stop returns.
func (m *Member) Watch(w Watch) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watches[&w] = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watches, &w)
	}
}

// tell calls one function of each Watch.
func (m *Member) tell(which func(*Watch) func(string), name string) {
	m.mu.Lock()
	var calls []func(string)
	for w := range m.watches {
		if f := which(w); f != nil {
			calls = append(calls, f)
		}
	}
	m.mu.Unlock()
	for _, f := range calls {
		f(name)
	}
}

// Leave ends everything that this replica does and notifies the others that it has left, by ending its streams. It
// retries until ctx is done; then the others declare it dead after Options.TTL, and the
// error comes from the Log. Running calls return reprise.ErrClosed. Leaving again does nothing.
func (m *Member) Leave(ctx context.Context) error {
	lf := m.current()
	m.vanish()
	for lf != nil {
		err := errors.Join(m.endStream(ctx, lf.beats.Key(), "left"), m.endStream(ctx, lf.inbox.Key(), "left"))
		if err == nil || !errors.Is(err, reprise.ErrUnavailable) || !sleep(ctx, m.opts.Beat/4) {
			return err
		}
	}
	return nil
}

// closePatience is how long Close tries to tell the others.
const closePatience = 2 * time.Second

// Close is like Leave with a timeout of 2 s, and returns no error if the others could not be notified.
// Closing again does nothing.
func (m *Member) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	if err := m.Leave(ctx); err != nil {
		m.opts.Logger.Warn("the other replicas cannot be notified that this one leaves", "error", err)
	}
	return nil
}

// Vanish ends everything that this replica does without telling the others, which declare it dead after Options.TTL. It
// is for a replica that comes back earlier, under another name, and continues its work.
func (m *Member) Vanish() { m.vanish() }

// vanish is Vanish.
func (m *Member) vanish() {
	m.stop(reprise.ErrClosed)
	m.mu.Lock()
	m.life = nil
	m.mu.Unlock()
	m.tasks.Wait()
	m.mu.Lock()
	m.life = nil // it may just have joined again
	m.mu.Unlock()
}

// background runs f in a goroutine that Close waits for, unless the Member is closed.
func (m *Member) background(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx.Err() == nil {
		m.tasks.Go(f)
	}
}

// endStream ends a stream that may have ended or gone already.
func (m *Member) endStream(ctx context.Context, key reprise.StreamKey, outcome string) error {
	s, err := m.log.Stream(ctx, key)
	if err == nil {
		_, err = s.End(ctx, outcome, reprise.Event{})
	}
	if isGone(err) {
		return nil
	}
	return err
}

// isGone reports whether an append was refused because the stream has ended or no longer exists.
func isGone(err error) bool {
	return errors.Is(err, reprise.ErrEnded) || errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired)
}

// sleep waits, and returns false if ctx was done before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Replica describes a live replica.
type Replica struct {
	Name string
	// Joined is when its streams were created, by its own clock.
	Joined time.Time
	// Seen is when this process last saw a new heartbeat, by its own clock.
	Seen time.Time
	// Self is true for the Member itself.
	Self bool
}

// Members returns the live replicas, by name.
func (m *Member) Members() []Replica {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Replica
	for name, p := range m.peers {
		if !p.gone {
			list = append(list,
				Replica{Name: name, Joined: p.joined, Seen: p.moved, Self: m.life != nil && name == m.life.name})
		}
	}
	slices.SortFunc(list, func(a, b Replica) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Alive reports whether a replica is alive, according to the last look.
func (m *Member) Alive(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life != nil && name == m.life.name {
		return true
	}
	p := m.peers[name]
	return p != nil && !p.gone
}
