package replica

import (
	"context"
	"strings"
	"time"

	"reprise"
)

// outcomeLost is the outcome of the streams of a replica that was declared dead.
const outcomeLost = "lost"

// peer is the state of another replica as seen from here.
type peer struct {
	joined time.Time
	epoch  reprise.Epoch
	tail   uint64    // of its beats
	moved  time.Time // time of its last observed move, or the start of counting
	gone   bool      // its stream has ended, and Watches were notified
}

// lookEvery reads the heartbeats of the others periodically.
func (m *Member) lookEvery() {
	failing := false
	for sleep(m.ctx, m.opts.Beat) {
		ctx, cancel := context.WithTimeout(m.ctx, m.opts.TTL)
		err := m.Look(ctx)
		cancel()
		if err != nil && !failing && m.ctx.Err() == nil {
			m.opts.Logger.Warn("cannot see the other replicas", "error", err)
		}
		failing = err != nil
	}
}

// Look updates the list of replicas at once. It also happens by itself every Options.Beat. Afterwards
// Alive is right for names that were found in the store before. The error comes from the Log.
func (m *Member) Look(ctx context.Context) error {
	select {
	case m.looking <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-m.looking }()
	began := time.Now()
	infos, err := m.list(ctx)
	if err != nil {
		return err
	}
	left, late := m.observe(began, infos)
	for _, name := range late {
		// Only the store declares a replica dead. If that fails now, the next look finds it late again, or starts to
		// count again.
		if err = m.endStream(ctx, streamKey(beatNamespace, name), outcomeLost); err != nil {
			break
		}
		m.opts.Logger.Warn("a replica was taken for dead", "replica", name, "ttl", m.opts.TTL)
		left = append(left, name)
		if err := m.endStream(ctx, streamKey(inboxNamespace, name), outcomeLost); err != nil {
			m.opts.Logger.Warn("an inbox has no end", "replica", name, "error", err)
		}
	}
	for _, name := range left {
		m.gone(name)
	}
	return err
}

// list returns the streams of heartbeats, also of replicas that have gone.
func (m *Member) list(ctx context.Context) ([]reprise.StreamInfo, error) {
	var all []reprise.StreamInfo
	query := reprise.ListQuery{Tenant: Tenant, Namespace: beatNamespace, Limit: 1000}
	for {
		page, err := m.log.List(ctx, query)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Streams...)
		if query.After = page.Next; query.After == "" {
			return all, nil
		}
	}
}

// observe compares a list, made from the time began on, with the known state. It returns the names of replicas that
// have left and of those that are late.
func (m *Member) observe(began time.Time, infos []reprise.StreamInfo) (left, late []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// A replica that did not look or write for so long cannot judge others.
	blind := began.Sub(m.lastLook) > m.opts.TTL/2 || began.Sub(m.lastBeat) > m.opts.TTL/2
	first := m.lastLook.IsZero()
	m.lastLook = began
	now := time.Now()
	listed := make(map[string]bool, len(infos))
	for i := range infos {
		info := &infos[i]
		name := strings.TrimPrefix(info.Key.Name, beatNamespace)
		listed[name] = true
		p := m.peers[name]
		if p == nil {
			// Replicas that had gone before this one joined are not reported.
			p = &peer{joined: info.Created, epoch: info.Epoch, tail: info.Tail, moved: now, gone: first &&
				info.End != nil}
			m.peers[name] = p
		}
		if p.gone && info.End == nil && info.Epoch != p.epoch { // the store has lost its end
			p.gone = false
			m.opts.Logger.Warn("a replica that was taken for dead is there again", "replica", name)
		}
		// The tail may go back if the store has lost events.
		if info.Tail != p.tail || info.Epoch != p.epoch || blind {
			p.epoch, p.tail, p.moved = info.Epoch, info.Tail, now
		}
		switch self := m.life != nil && m.life.name == name; {
		case p.gone || self:
		case info.End != nil:
			left = append(left, name)
		case began.Sub(p.moved) >= m.opts.TTL:
			late = append(late, name)
		}
	}
	for name, p := range m.peers {
		switch {
		case listed[name] || m.life != nil && m.life.name == name: // the next heartbeat of this replica detects it
		case p.gone:
			delete(m.peers, name)
		default: // its stream was removed
			left = append(left, name)
		}
	}
	return left, late
}

// gone records that a replica has left, ends the calls to it, and notifies the Watches.
func (m *Member) gone(name string) {
	m.mu.Lock()
	if p := m.peers[name]; p != nil {
		p.gone = true
	}
	lf := m.life
	m.mu.Unlock()
	if lf != nil {
		lf.abandon(name)
	}
	m.tell(func(w *Watch) func(string) { return w.Left }, name)
}
