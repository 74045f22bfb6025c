//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"reprise/internal/cutproxy"
	"reprise/internal/testserver"
)

// engine is the store of the servers of a stage.
type engine interface {
	// storeURL is the URL that the servers are given.
	storeURL() string
	// shared reports whether several servers may use it.
	shared() bool
	// mayLose reports whether acknowledged events may have been lost by now. Servers must then report the loss.
	mayLose() bool
	// canLose reports whether the engine can lose acknowledged events at all.
	canLose() bool
	// survivesKill reports whether streams survive when the server of the engine, or the process that embeds it, is
	// killed.
	survivesKill() bool
	// faults are the engine's own faults, besides those of servers and connections.
	faults() []fault
	// restore repairs the engine after any fault.
	restore() error
	close() error
}

// fault is an injected failure. It is over when its function returns.
type fault struct {
	name   string
	weight int
	do     func(*stage) error
}

// server is a server of package testserver.
type server interface {
	URL() string
	Addr() string
	Start() error
	Kill() error
	Pause() error
	Resume() error
	Stop() error
}

// promoted is Redis with promotions, which may lose acknowledged events. Redis without promotions may not.
const promoted = "redis-promoted"

func storeNames() []string {
	return []string{"memory", "log", "sqlite", "redis", promoted, "postgres", "nats", restored}
}

// diskSizes are small, so that disks fill quickly.
var diskSizes = map[string]int64{
	"log": 128 << 20, "sqlite": 128 << 20, "redis": 256 << 20, promoted: 256 << 20, "postgres": 512 << 20,
	"nats": 256 << 20, restored: 256 << 20,
}

func openEngine(name, dir string) (engine, error) {
	if !slices.Contains(storeNames(), name) {
		return nil, fmt.Errorf("there is no store %q, but %s", name, strings.Join(storeNames(), ", "))
	}
	if name == "memory" {
		return memory{}, nil
	}
	d, err := openDisk(filepath.Join(dir, "disk"), diskSizes[name])
	if err != nil {
		return nil, err
	}
	if name == "log" || name == "sqlite" {
		return &embedded{scheme: name, disk: d}, nil
	}
	r := &remote{disk: d}
	if err := d.within(func() error { return r.start(name) }); err != nil {
		return nil, errors.Join(err, r.close())
	}
	if r.proxy, err = cutproxy.Listen(r.servers[0].Addr(), nil); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// memory is the store that ends with its process.
type memory struct{}

func (memory) storeURL() string   { return "memory:" }
func (memory) shared() bool       { return false }
func (memory) mayLose() bool      { return false }
func (memory) canLose() bool      { return false }
func (memory) survivesKill() bool { return false }
func (memory) faults() []fault    { return nil }
func (memory) restore() error     { return nil }
func (memory) close() error       { return nil }

// embedded is the log or SQLite in the server's process.
type embedded struct {
	scheme string
	disk   *disk
}

func (e *embedded) storeURL() string   { return e.scheme + ":" + filepath.Join(e.disk.dir, "db") }
func (e *embedded) shared() bool       { return false }
func (e *embedded) mayLose() bool      { return false }
func (e *embedded) canLose() bool      { return false }
func (e *embedded) survivesKill() bool { return true }
func (e *embedded) faults() []fault    { return fullDisk(e.disk, func() error { return nil }) }
func (e *embedded) restore() error     { return e.disk.free() }
func (e *embedded) close() error       { return e.disk.close() }

// remote is a separate store server behind a proxy. Redis has a second server that can be promoted.
type remote struct {
	disk    *disk
	proxy   *cutproxy.Proxy
	servers []server
	redis   []*testserver.RedisServer // the same, primary first
	files   *files                    // of NATS, if they are restored

	lost  atomic.Bool // whether events may have been lost
	marks int
}

func (r *remote) start(name string) error {
	switch name {
	case "postgres":
		s, err := testserver.StartPostgres(nil)
		if err != nil {
			return err
		}
		r.servers = []server{s}
	case "nats", restored:
		s, err := testserver.StartNATS(nil)
		if err != nil {
			return err
		}
		r.servers = []server{s}
		if name == restored {
			r.files = &files{server: s, saved: filepath.Join(filepath.Dir(r.disk.dir), "saved")}
		}
	default:
		n := 1
		if name == promoted {
			n = 2
		}
		for range n {
			s, err := testserver.StartRedis(nil)
			if err != nil {
				return err
			}
			r.servers, r.redis = append(r.servers, s), append(r.redis, s)
		}
	}
	return r.replicate()
}

func (r *remote) storeURL() string {
	u, err := url.Parse(r.servers[0].URL())
	if err != nil {
		return err.Error() // no address of our servers is invalid
	}
	u.Host = r.proxy.Addr()
	return u.String()
}

func (r *remote) shared() bool       { return true }
func (r *remote) mayLose() bool      { return r.lost.Load() }
func (r *remote) mayPromote() bool   { return len(r.redis) == 2 }
func (r *remote) canLose() bool      { return r.mayPromote() || r.files != nil }
func (r *remote) survivesKill() bool { return true }

func (r *remote) faults() []fault {
	all := []fault{
		{"cut store connections", 6, func(*stage) error { r.proxy.Cut(); return nil }},
		{"kill store", 1, func(s *stage) error {
			if err := r.servers[0].Kill(); err != nil {
				return err
			}
			s.wait(300)
			return r.servers[0].Start()
		}},
		{"stop store", 2, func(s *stage) error {
			if err := r.servers[0].Pause(); err != nil {
				return err
			}
			s.wait(1500)
			return r.servers[0].Resume()
		}},
	}
	if r.mayPromote() {
		all = append(all, fault{"promote replica", 2, func(s *stage) error { return r.promote(s) }})
	}
	if r.files != nil {
		all = append(all, fault{"put store back", 2, func(s *stage) error {
			return r.files.putBack(s, func() { r.lost.Store(true) })
		}})
	}
	return append(all, fullDisk(r.disk, r.restart)...)
}

// fullDisk fills a disk for a moment and calls after once there is room again.
func fullDisk(d *disk, after func() error) []fault {
	if !d.mounted {
		return nil
	}
	return []fault{{"fill disk", 1, func(s *stage) error {
		err := d.fill()
		s.wait(1500)
		return errors.Join(err, d.free(), after())
	}}}
}

// restart restarts servers that a full disk may have ended.
func (r *remote) restart() error {
	for _, s := range r.servers {
		if err := errors.Join(s.Kill(), s.Start()); err != nil {
			return err
		}
	}
	return r.replicate()
}

// replicate makes the second Redis server, if there is one, a replica of the first.
func (r *remote) replicate() error {
	if !r.mayPromote() {
		return nil
	}
	host, port, _ := strings.Cut(r.redis[0].Addr(), ":")
	_, err := r.redis[1].Command("REPLICAOF", host, port)
	return err
}

// promote kills the primary and replaces it by its replica, which has caught up a moment before. Events acknowledged in
// between are lost, and the loss must be reported: almost none in one half of the promotions, and those of up to 300 ms
// in the other half, in which the replica is disconnected first.
func (r *remote) promote(s *stage) error {
	if caughtUp, err := r.awaitReplica(s); !caughtUp || err != nil {
		return err
	}
	r.lost.Store(true)
	if s.rnd.IntN(2) == 0 {
		if _, err := r.redis[1].Command("REPLICAOF", "127.0.0.1", "1"); err != nil { // an address without a server
			return err
		}
		s.wait(300)
	}
	if err := r.redis[0].Kill(); err != nil {
		return err
	}
	s.wait(200)
	if _, err := r.redis[1].Command("REPLICAOF", "NO", "ONE"); err != nil {
		return err
	}
	r.redis[0], r.redis[1] = r.redis[1], r.redis[0]
	r.servers[0], r.servers[1] = r.servers[1], r.servers[0]
	r.proxy.SetTarget(r.servers[0].Addr())
	if err := r.redis[1].Start(); err != nil {
		return err
	}
	return r.replicate()
}

// catchUpWithin bounds the wait for the replica. A replica that has not caught up by then is not promoted.
const catchUpWithin = 10 * time.Second

// awaitReplica waits until the replica has a mark that is written to the primary now. Comparing offsets is not enough:
// a restarted primary counts from the beginning.
func (r *remote) awaitReplica(s *stage) (caughtUp bool, err error) {
	r.marks++
	mark := fmt.Sprint("mark ", r.marks)
	if _, err := r.redis[0].Command("SET", "torture", mark); err != nil {
		return false, nil //nolint:nilerr // a primary whose disk was full, for instance, is not ready either
	}
	for deadline := time.Now().Add(catchUpWithin); time.Now().Before(deadline); s.wait(20) {
		if got, err := r.redis[1].Command("GET", "torture"); err == nil && strings.Contains(got, mark) {
			return true, nil
		}
	}
	return false, nil
}

func (r *remote) restore() error { return r.disk.free() }

func (r *remote) close() error {
	var errs []error
	if r.proxy != nil {
		r.proxy.Close()
	}
	for _, s := range r.servers {
		errs = append(errs, s.Stop())
	}
	return errors.Join(append(errs, r.disk.close())...)
}
