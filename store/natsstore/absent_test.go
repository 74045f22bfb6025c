package natsstore_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/natsstore"
)

// closing forwards requests of the domain "closing" to a server. While closed is true it answers those for messages
// itself, as a server does that has closed its files: there is no such message.
type closing struct{ closed, many atomic.Bool }

func (c *closing) start(t *testing.T, server *testserver.NATSServer) {
	conn, err := nats.Connect(server.URL())
	must(t, err)
	t.Cleanup(conn.Close)
	_, err = conn.Subscribe("$JS.closing.API.>", func(msg *nats.Msg) {
		subject := strings.Replace(msg.Subject, ".closing", "", 1)
		several := strings.Contains(string(msg.Data), "multi_last")
		if c.closed.Load() && strings.Contains(subject, ".DIRECT.GET.") && (!several || c.many.Load()) {
			head := nats.Header{"Status": {"404"}, "Description": {"Message Not Found"}}
			_ = conn.PublishMsg(&nats.Msg{Subject: msg.Reply, Header: head})
			return
		}
		_ = conn.PublishMsg(&nats.Msg{Subject: subject, Reply: msg.Reply, Data: msg.Data})
	})
	must(t, err)
	must(t, conn.Flush())
}

// TestNothingIsMissingInServerThatCannotRead: a server that cannot read its messages answers that it has none. Streams
// are then neither missing nor damaged, nor removed nor left out.
func TestNothingIsMissingInServerThatCannotRead(t *testing.T) {
	server := testserver.NATS(t, nil)
	var c closing
	c.start(t, server)
	open := func() *natsstore.Store { return openAt(t, place(server, "&timeout=3s&domain=closing&name=closing")) }
	s := open()
	info := create(t, s, "there")
	for range 20 {
		must(t, errors.Join(s.Append(t.Context(), []reprise.AppendRequest{request(&info, 1, []byte("some"))})...))
		info.Tail++
	}
	list := reprise.ListQuery{Tenant: info.Key.Tenant, Limit: 10}
	calls := map[string]func(*natsstore.Store) error{
		"read": func(s *natsstore.Store) error {
			_, err := s.Read(t.Context(), info.Key, 0, 1)
			return err
		},
		"append": func(s *natsstore.Store) error {
			return errors.Join(s.Append(t.Context(), []reprise.AppendRequest{request(&info, 1, []byte("more"))})...)
		},
		"remove": func(s *natsstore.Store) error {
			return s.Remove(t.Context(), info.Key, reprise.RemoveSpec{})
		},
		"list": func(s *natsstore.Store) error {
			_, err := s.List(t.Context(), list)
			return err
		},
	}
	others := map[string]*natsstore.Store{}
	for name := range calls {
		others[name] = open() // knows nothing of the stream
	}
	c.closed.Store(true)
	c.many.Store(true)
	for name, call := range calls {
		if err := call(others[name]); !errors.Is(err, reprise.ErrUnavailable) {
			t.Errorf("%s while the server cannot read: %v", name, err)
		}
	}
	c.many.Store(false)
	page, err := s.Read(t.Context(), info.Key, info.Tail, 0) // s knows the record of the stream
	if err != nil || page.Info.Tail != info.Tail {
		t.Errorf("a subject is looked up: %v, a page with the tail %d", err, page.Info.Tail)
	}
	c.closed.Store(false)
	for _, s := range append([]*natsstore.Store{s}, others["list"]) {
		all, err := s.List(t.Context(), list)
		must(t, err)
		if page, err := s.Read(t.Context(), info.Key, 0, 1<<20); err != nil || len(all.Streams) != 1 ||
			page.Info.Tail != info.Tail || len(page.Batches) != int(info.Tail) {
			t.Errorf("afterwards: %v, %d streams, %d batches, the tail %d", err, len(all.Streams), len(page.Batches),
				page.Info.Tail)
		}
	}
	missing := reprise.StreamKey{Tenant: info.Key.Tenant, Name: "missing"}
	if _, err := s.Read(t.Context(), missing, 0, 1); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("read of a stream that does not exist: %v", err)
	}
}

// TestNothingIsMissingWhileServerShutsDown: the same with a server that is told to end.
func TestNothingIsMissingWhileServerShutsDown(t *testing.T) {
	server := testserver.NATS(t, nil)
	s := openAt(t, place(server, "&timeout=3s"))
	info := create(t, s, "there")
	must(t, errors.Join(s.Append(t.Context(), []reprise.AppendRequest{request(&info, 1, []byte("some"))})...))
	for range 3 {
		stop, errs := make(chan struct{}), make(chan error, 8)
		var begun atomic.Int64
		for range cap(errs) {
			go func() {
				for {
					_, err := s.Read(t.Context(), info.Key, 0, 1)
					begun.Add(1)
					if err != nil && !errors.Is(err, reprise.ErrUnavailable) {
						errs <- err
						return
					}
					select {
					case <-stop:
						errs <- nil
						return
					default:
					}
				}
			}()
		}
		for deadline := time.Now().Add(time.Minute); begun.Load() < 100 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		must(t, errors.Join(server.Terminate(), server.Start()))
		close(stop)
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	}
}
