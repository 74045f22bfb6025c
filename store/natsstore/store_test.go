package natsstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/natsstore"
)

// behind is the JetStream stream with the events of a place.
func behind(t *testing.T, where string) (jetstream.JetStream, jetstream.Stream) {
	t.Helper()
	server, query, _ := strings.Cut(where, "?")
	name, _, _ := strings.Cut(strings.TrimPrefix(query, "name="), "&")
	conn, err := nats.Connect(server)
	must(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	must(t, err)
	stream, err := js.Stream(t.Context(), name)
	must(t, err)
	return js, stream
}

// messages counts those on the server, until there are few enough.
func messages(t *testing.T, stream jetstream.Stream, atMost uint64) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		info, err := stream.Info(t.Context())
		must(t, err)
		if info.State.Msgs <= atMost {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d messages are kept, %d at most are expected", info.State.Msgs, atMost)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// What lies before the window is taken from the server, parts of large batches too, and everything of a stream that
// is gone.
func TestMessagesBeforeWindowArePurged(t *testing.T) {
	where := place(testserver.NATS(t, nil), "")
	s := openAt(t, where)
	_, stream := behind(t, where)
	info := create(t, s, "s")
	const window = 50
	for n := range 1000 {
		req := request(&info, 1, nil)
		req.Bytes = append([]byte(label(req.First)), make([]byte, 10_000)...)
		if n%100 == 0 {
			req.Bytes = append(req.Bytes, make([]byte, 2<<20)...)
		}
		req.Earliest = max(1, req.First+1-min(req.First, window))
		req.Kept = min(window, int64(req.First)) * 10_000
		if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
			t.Fatal(errs[0])
		}
		info.Tail, info.Earliest, info.Bytes = req.First, req.Earliest, req.Kept
	}
	const boots = 1 // a message is of no stream; see boot
	messages(t, stream, 2*window+boots)
	page, err := s.Read(t.Context(), info.Key, 0, 1<<30)
	must(t, err)
	if len(page.Batches) != window {
		t.Errorf("%d batches can be read, %d are kept", len(page.Batches), window)
	}
	must(t, s.Remove(t.Context(), info.Key, reprise.RemoveSpec{Trim: info.Tail, Kept: 10_000}))
	messages(t, stream, 2+boots)
	big := bytes.Repeat([]byte("x"), 3<<20)
	info.Earliest = info.Tail
	appendTo(t, s, &info, 1, append([]byte(label(info.Tail+1)), big...))
	must(t, s.Remove(t.Context(), info.Key, reprise.RemoveSpec{}))
	messages(t, stream, 1+boots)          // the one that says that it is gone
	_, index := behind(t, where+"_INDEX") // the name is all of the query
	messages(t, index, 0)
}

// An end with a lot of data is given back by every call that tells of it.
func TestEndWithMuchData(t *testing.T) {
	where := place(testserver.NATS(t, nil), "")
	s := openAt(t, where)
	now := time.UnixMilli(time.Now().UnixMilli()).UTC()
	want := reprise.End{Outcome: "completed", Time: now, Expires: now, Data: bytes.Repeat([]byte("e"), 3<<20)}
	info := create(t, s, "s")
	req := request(&info, 1, []byte(label(1)))
	req.End = &want
	if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
		t.Fatal(errs[0])
	}
	same := func(what string, got *reprise.End) {
		t.Helper()
		if got == nil || got.Outcome != want.Outcome || !bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s gives another end", what)
		}
	}
	other := openAt(t, where)
	must(t, other.Remove(t.Context(), info.Key, reprise.RemoveSpec{Trim: 2}))
	page, err := other.Read(t.Context(), info.Key, 0, 0)
	must(t, err)
	same("Read", page.Info.End)
	list, err := other.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 1})
	must(t, err)
	same("List", list.Streams[0].End)
	swept, err := other.Sweep(t.Context(), now, now.Add(time.Hour), 10)
	must(t, err)
	if len(swept) != 1 {
		t.Fatalf("%d streams were swept", len(swept))
	}
	same("Sweep", swept[0].End)
}

// A message that is lost or not ours is found, and never passed over in silence.
func TestDamageIsNotServed(t *testing.T) {
	where := place(testserver.NATS(t, nil), "")
	s := openAt(t, where)
	js, stream := behind(t, where)
	name := stream.CachedInfo().Config.Name
	hole, foreign, sound := create(t, s, "hole"), create(t, s, "foreign"), create(t, s, "sound")
	for range 10 {
		for _, info := range []*reprise.StreamInfo{&hole, &foreign, &sound} {
			appendTo(t, s, info, 1, []byte(label(info.Tail+1)))
		}
	}
	wrong, err := s.Check(t.Context())
	must(t, err)
	if len(wrong) > 0 {
		t.Fatalf("a sound store: %q", wrong)
	}
	msg, err := stream.GetMsg(t.Context(), 3+3*5, jetstream.WithGetMsgSubject(name+".s.default.hole"))
	must(t, err)
	must(t, stream.DeleteMsg(t.Context(), msg.Sequence))
	// The bytes of a batch are others than its sum says.
	msg, err = stream.GetLastMsgForSubject(t.Context(), name+".s.default.foreign")
	must(t, err)
	_, err = js.PublishMsg(t.Context(), &nats.Msg{
		Subject: msg.Subject, Header: nats.Header{"Reprise": msg.Header["Reprise"]}, Data: []byte("something else"),
	})
	must(t, err)
	other := openAt(t, where)
	for _, info := range []*reprise.StreamInfo{&hole, &foreign} {
		_, err := other.Read(t.Context(), info.Key, 0, 1<<20)
		if !errors.Is(err, natsstore.ErrDamaged) || errors.Is(err, reprise.ErrUnavailable) ||
			errors.Is(err, reprise.ErrNotFound) {
			t.Errorf("%s: %v, want ErrDamaged", info.Key, err)
		}
	}
	all(t, other, sound.Key)
	// The state of a stream is not ours: the others are served all the same.
	alien := create(t, s, "alien")
	_, err = js.Publish(t.Context(), name+".s.default.alien", []byte("hello"))
	must(t, err)
	if _, err := other.Read(t.Context(), alien.Key, 0, 1); !errors.Is(err, natsstore.ErrDamaged) {
		t.Errorf("%s: %v, want ErrDamaged", alien.Key, err)
	}
	list, err := other.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
	must(t, err)
	if len(list.Streams) != 3 {
		t.Errorf("%d streams are listed, want 3", len(list.Streams))
	}
	wrong, err = other.Check(t.Context())
	must(t, err)
	if len(wrong) != 3 {
		t.Errorf("Check says %q, want three sentences", wrong)
	}
	stats, err := other.Stats(t.Context())
	must(t, err)
	if stats.Streams != 3 || stats.Events != 30 || stats.Messages < 30 || stats.Replicas != 1 {
		t.Errorf("%+v", stats)
	}
}

// A JetStream stream that would lose events is refused, and one with other limits taken.
func TestOpenChecksExistingStream(t *testing.T) {
	server := testserver.NATS(t, nil)
	where := place(server, "")
	must(t, openAt(t, where).Close())
	js, stream := behind(t, where)
	config := stream.CachedInfo().Config
	config.MaxBytes = 1 << 30
	config.Description = "of the operator"
	_, err := js.UpdateStream(t.Context(), config)
	must(t, err)
	s := openAt(t, where)
	info := create(t, s, "s")
	appendTo(t, s, &info, 1, []byte(label(1)))
	must(t, s.Close())

	config.Discard = jetstream.DiscardOld
	_, err = js.UpdateStream(t.Context(), config)
	must(t, err)
	if s, err := natsstore.Open(t.Context(), where, nil); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("a stream that discards old messages: %v", err)
		if err == nil {
			must(t, s.Close())
		}
	}
}

// A server that lacks what is needed is refused with the reason.
func TestOpenRefusesUnsuitableServer(t *testing.T) {
	small := testserver.NATS(t, &testserver.NATSOptions{Config: "max_payload: 64KB"})
	_, err := natsstore.Open(t.Context(), small.URL(), nil)
	if !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("small messages: %v", err)
	}
	_, err = natsstore.Open(t.Context(), "nats://127.0.0.1:1", nil)
	if !errors.Is(err, reprise.ErrUnavailable) {
		t.Errorf("no server: %v", err)
	}
	without := testserver.NATS(t, &testserver.NATSOptions{JetStream: "enabled: false"})
	_, err = natsstore.Open(t.Context(), without.URL()+"?timeout=1s", nil)
	if !errors.Is(err, reprise.ErrUnavailable) {
		t.Errorf("no JetStream: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the cause")
	cancel(cause)
	if _, err = natsstore.Open(ctx, small.URL(), nil); !errors.Is(err, cause) {
		t.Errorf("a cancelled context: %v", err)
	}
}

// One server without synchronous writes is told about.
func TestWarningsAboutSingleServerWithoutSync(t *testing.T) {
	var text bytes.Buffer
	server := testserver.NATS(t, nil)
	opts := &natsstore.Options{Logger: slog.New(slog.NewTextHandler(&text, nil)), Name: fmt.Sprint("T", places.Add(1))}
	s, err := natsstore.Open(t.Context(), server.URL(), opts)
	must(t, err)
	must(t, s.Close())
	if !strings.Contains(text.String(), "sync_interval") {
		t.Errorf("the log says %q", &text)
	}
}

// The permissions that docs/internals/storage-nats.md names are enough.
func TestPermissionsInDocsSuffice(t *testing.T) {
	const name = "P"
	var api []string
	for _, stream := range []string{name, name + "_INDEX"} {
		for _, call := range []string{
			"STREAM.INFO", "STREAM.CREATE", "STREAM.MSG.GET", "STREAM.MSG.DELETE", "STREAM.PURGE", "DIRECT.GET",
			"CONSUMER.CREATE", "CONSUMER.DELETE", "CONSUMER.MSG.NEXT",
		} {
			api = append(api, fmt.Sprintf("%q", "$JS.API."+call+"."+stream),
				fmt.Sprintf("%q", "$JS.API."+call+"."+stream+".>"))
		}
	}
	server := testserver.NATS(t, &testserver.NATSOptions{Config: fmt.Sprintf(`authorization { users: [ { user: u, password: p, permissions: {
		publish: [%q, %s], subscribe: [%q, "_INBOX.>"] } } ] }`, name+".>", strings.Join(api, ", "), name+".w.>")})
	var text bytes.Buffer
	opts := &natsstore.Options{
		Name:   name,
		Logger: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	s, err := natsstore.Open(t.Context(), "nats://u:p@"+server.Addr(), opts)
	must(t, err)
	info := create(t, s, "s")
	stop, err := s.Watch(info.Key, func() {})
	must(t, err)
	appendTo(t, s, &info, 1, append([]byte(label(1)), make([]byte, 2<<20)...))
	appendTo(t, s, &info, 1, []byte(label(2)))
	all(t, s, info.Key)
	must(t, s.Remove(t.Context(), info.Key, reprise.RemoveSpec{Trim: 2, Kept: 2}))
	_, err = s.Stats(t.Context())
	must(t, err)
	_, err = s.Sweep(t.Context(), time.Now(), time.Now(), 10)
	must(t, err)
	must(t, s.Remove(t.Context(), info.Key, reprise.RemoveSpec{}))
	stop()
	must(t, s.Close())
	for line := range strings.Lines(text.String()) {
		if strings.Contains(line, "ermission") || strings.Contains(line, "tidying") {
			t.Error(line)
		}
	}
	// Without one of them there is an error at once, and not when the time is over.
	server = testserver.NATS(t, &testserver.NATSOptions{Config: `authorization { users: [ { user: u, password: p, permissions: {
		publish: ["$JS.API.>"] } } ] }`})
	s, err = natsstore.Open(t.Context(), "nats://u:p@"+server.Addr()+"?timeout=10m", nil)
	must(t, err)
	defer s.Close()
	start := time.Now()
	_, err = s.Create(t.Context(), reprise.StreamInfo{
		Key:     reprise.StreamKey{Tenant: "t", Name: "n"},
		Epoch:   reprise.NewEpoch(),
		Created: time.Now(),
	})
	if !errors.Is(err, reprise.ErrUnavailable) || time.Since(start) > 5*time.Minute {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}
