package testserver_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"reprise/internal/testserver"
)

func TestNATSKeepsItsDataWhenKilled(t *testing.T) {
	server := testserver.NATS(t, &testserver.NATSOptions{User: "somebody", Password: "secret"})
	connect := func() (*nats.Conn, jetstream.JetStream) {
		conn, err := nats.Connect(server.URL())
		must(t, err)
		js, err := jetstream.New(conn)
		must(t, err)
		return conn, js
	}
	conn, js := connect()
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	must(t, err)
	_, err = js.Publish(t.Context(), "s", []byte("kept"))
	must(t, err)
	conn.Close()
	must(t, server.Kill())
	must(t, server.Start())

	conn, js = connect()
	defer conn.Close()
	s, err := js.Stream(t.Context(), "S")
	must(t, err)
	msg, err := s.GetMsg(t.Context(), 1)
	must(t, err)
	if string(msg.Data) != "kept" {
		t.Errorf("got %q", msg.Data)
	}

	must(t, server.Pause())
	if err := conn.FlushTimeout(50 * time.Millisecond); err == nil {
		t.Error("a server that is held up has answered")
	}
	must(t, server.Resume())
	must(t, conn.Flush())
}

func TestNATSWithTLS(t *testing.T) {
	server := testserver.NATS(t, &testserver.NATSOptions{TLS: true})
	conn, err := nats.Connect(server.URL(), nats.RootCAs(server.CAFile()))
	must(t, err)
	defer conn.Close()
	must(t, conn.Flush())
	if conn, err := nats.Connect(server.URL()); err == nil {
		conn.Close()
		t.Error("a certificate that nobody knows was taken")
	}
}
