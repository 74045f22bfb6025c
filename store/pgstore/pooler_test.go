package pgstore_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/pgstore"
)

// pooler stands between a Store and two servers as a pooler in transaction mode does: after some transactions the
// connection goes on with the other server, and the Store does not notice.
type pooler struct {
	listener net.Listener
	first    string
	second   string
	commits  atomic.Int64 // to the first server until the second takes over
	takeOver func()
	done     sync.WaitGroup
}

func newPooler(t *testing.T, first, second string) *pooler {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	p := &pooler{listener: l, first: first, second: second}
	p.done.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.done.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		check(t, l.Close())
		p.done.Wait()
	})
	return p
}

// serve serves a client until it or its server goes.
func (p *pooler) serve(client net.Conn) {
	defer client.Close()
	startup, err := readMessage(client, 0)
	if err != nil {
		return
	}
	server, err := p.connect(p.first, startup)
	if err != nil {
		return
	}
	var current atomic.Pointer[net.Conn]
	current.Store(&server)
	defer func() { (*current.Load()).Close() }()
	p.done.Go(func() {
		defer func() { (*current.Load()).Close() }()
		for buf := make([]byte, 64<<10); ; {
			n, err := client.Read(buf)
			if err != nil {
				return
			}
			if _, err := (*current.Load()).Write(buf[:n]); err != nil {
				return
			}
		}
	})
	for last := false; ; {
		message, err := readMessage(server, 1)
		if err != nil {
			return
		}
		if message[0] == 'C' && bytes.HasPrefix(message[5:], []byte("COMMIT")) {
			last = p.commits.Add(-1) == 0
		}
		if message[0] == 'Z' && last { // the client has not begun another transaction
			last = false
			p.takeOver()
			_ = server.Close()
			if server, err = p.connect(p.second, startup); err != nil {
				return
			}
			current.Store(&server)
			for message[0] = 0; message[0] != 'Z'; {
				if message, err = readMessage(server, 1); err != nil {
					return
				}
			}
		}
		if _, err := client.Write(message); err != nil {
			return
		}
	}
}

func (p *pooler) connect(addr string, startup []byte) (net.Conn, error) {
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		_, err = conn.Write(startup)
	}
	return conn, err
}

// readMessage reads a message of the protocol, whose length follows its type of so many bytes.
func readMessage(from io.Reader, kind int) ([]byte, error) {
	head := make([]byte, kind+4)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	message := append(head, make([]byte, binary.BigEndian.Uint32(head[kind:])-4)...)
	_, err := io.ReadFull(from, message[len(head):])
	return message, err
}

// TestPartitionIsKeptIfStandbyTakesOver: while a partition is emptied through a pooler, a standby takes over that lacks
// the transactions that have moved its rows, or also the one that has closed it. Nothing that the standby has is lost.
func TestPartitionIsKeptIfStandbyTakesOver(t *testing.T) {
	// There are 2500 rows, of which a transaction moves 1000.
	const streams, batches, size = 100, 25, 40
	for _, c := range []struct {
		name    string
		closed  bool // on the standby
		trimmed bool // all that the standby has
	}{
		{"closed", true, false},
		{"open", false, false},
		{"open, and left by all windows", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			primary := testserver.Postgres(t, &testserver.PostgresOptions{Config: []string{"fsync = off"}})
			standby := primary.Standby(t)
			between := newPooler(t, primary.Addr(), standby.Addr())
			opts := &pgstore.Options{PartBytes: 1 << 18, TidyEvery: -1, NoNotify: true}
			fill(t, mustOpen(t, primary.URL(), opts), streams, batches, size)
			if c.closed {
				sql(t, primary.URL(), `SELECT reprise.add_part(2, 0)`)
			}
			stopFollowing(t, primary, standby)
			took := false
			between.takeOver = func() {
				took = true
				if n := count(t, primary, `SELECT count(*) FROM reprise.batches_1`); n != 500 {
					t.Errorf("%d rows are left in the partition, want 500 of 2500", n)
				}
				sql(t, standby.URL(), `SELECT pg_promote()`)
				if c.trimmed {
					sql(t, standby.URL(), `UPDATE reprise.streams SET earliest = tail + 1, bytes = 0`)
				}
			}
			behind := strings.Replace(primary.URL(), primary.Addr(), between.listener.Addr().String(), 1)
			tidier := mustOpen(t, behind, opts)
			between.commits.Store(3) // one looks whether a partition is to be added, and two move rows
			check(t, tidier.Tidy(t.Context()))
			if !took {
				t.Fatal("the standby has not taken over: this tests nothing")
			}
			after := mustOpen(t, standby.URL(), opts)
			for range 2 { // the second time after what was not done is done
				for i := range streams {
					intact(t, after, streamName(i), size)
				}
				check(t, after.Tidy(t.Context()))
			}
			if n := count(t, standby, `SELECT count(*) FROM pg_tables WHERE tablename = 'batches_1'`); n != 0 {
				t.Error("the first partition is still there")
			}
			req := create(t, after, "new")
			put(t, after, &req, size, 10)
			intact(t, after, "new", size)
		})
	}
}

// stopFollowing waits until a standby has what its primary has, and cuts it off.
func stopFollowing(t *testing.T, primary, standby *testserver.PostgresServer) {
	t.Helper()
	eventually(t, "the standby has what was committed", func() bool {
		const behind = `SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()`
		return count(t, primary, behind) == 1
	})
	sql(t, standby.URL(), `ALTER SYSTEM SET primary_conninfo = ''`, `SELECT pg_reload_conf()`)
	eventually(t, "the standby does not follow any more",
		func() bool { return count(t, standby, `SELECT count(*) FROM pg_stat_wal_receiver`) == 0 })
}

// count is what a query finds on a server.
func count(t *testing.T, on *testserver.PostgresServer, query string) int {
	t.Helper()
	return (&promotion{standby: on}).count(t, query)
}

func streamName(i int) string { return "s/" + string(rune('a'+i/26)) + string(rune('a'+i%26)) }

// fill makes streams with as many batches of size bytes, one event each.
func fill(t *testing.T, s *pgstore.Store, streams, batches, size int) {
	t.Helper()
	reqs := make([]reprise.AppendRequest, streams)
	for i := range reqs {
		reqs[i] = create(t, s, streamName(i))
	}
	for range batches {
		for i := range reqs {
			reqs[i].Bytes = content(reqs[i].Key.Name, reqs[i].First, size)
			reqs[i].Kept += int64(size)
		}
		if errs := s.Append(t.Context(), reqs); errs != nil {
			t.Fatal(errs)
		}
		for i := range reqs {
			reqs[i].First++
		}
	}
}
