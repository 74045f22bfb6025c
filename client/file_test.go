package client_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/api"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/files"
	"reprise/internal/identity"
	"reprise/internal/quota"
	"reprise/internal/web"
	"reprise/store/memstore"
)

// fileServer is the real server with the root "work".
type fileServer struct {
	*testing.T
	dir, state string // of the root, and of the watches
	handler    atomic.Pointer[api.Server]
	web        *httptest.Server
	stop       func()
}

func newFileServer(t *testing.T) *fileServer {
	t.Helper()
	s := &fileServer{T: t, dir: t.TempDir(), state: t.TempDir()}
	log, err := reprise.Open(context.Background(), memstore.New(nil), nil)
	s.ok(err)
	host, err := execution.Open(context.Background(), log, &execution.Options{
		Dir: t.TempDir(), StateDir: t.TempDir(), Drive: interpreter.Drive,
	})
	s.ok(err)
	s.start(log, host)
	s.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handler.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.handler.Load().Drain()
		s.web.Close()
		s.stop()
		s.ok(host.Close())
		s.ok(log.Close())
	})
	return s
}

// start begins to serve the files, as a server does that knows of no transfer.
func (s *fileServer) start(log *reprise.Log, host *execution.Host) {
	s.Helper()
	roots, err := files.Open(map[string]string{"work": s.dir}, nil)
	s.ok(err)
	watches, err := files.OpenWatches(log, roots, s.state, &files.WatchOptions{Interval: time.Millisecond})
	s.ok(err)
	gate := identity.NewGate(reprise.NewKeyset(), nil, nil)
	opts := new(api.Options)
	opts.Reads = api.NewReads(log, opts)
	opts.Parts = []web.Part{files.API{Roots: roots, Watches: watches, Reads: opts.Reads, Quotas: quota.New(nil)}}
	server, err := api.New(log, host, gate, opts)
	s.ok(err)
	before := s.stop
	s.handler.Store(server)
	s.stop = func() { s.ok(errors.Join(watches.Close(), roots.Close())) }
	if before != nil {
		before()
	}
}

func (s *fileServer) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// client returns a client whose first n connections are cut after so many bytes in either direction.
func (s *fileServer) client(n int32, bytes int64) *client.Client {
	s.Helper()
	var dials atomic.Int32
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil || dials.Add(1) > n {
			return conn, err
		}
		short := &shortConn{Conn: conn}
		short.left.Store(bytes)
		return short, nil
	}
	transport := &http.Transport{DialContext: dial}
	s.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(&client.Options{
		URL: s.web.URL, Token: "-", HTTPClient: &http.Client{Transport: transport},
		MinWait: time.Millisecond, MaxWait: 10 * time.Millisecond,
	})
	s.ok(err)
	return c
}

// shortConn is a connection that breaks after some bytes.
type shortConn struct {
	net.Conn
	left atomic.Int64
}

func (c *shortConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return c.pass(n, err)
}

func (c *shortConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return c.pass(n, err)
}

func (c *shortConn) pass(n int, err error) (int, error) {
	if c.left.Add(int64(-n)) < 0 {
		_ = c.Close()
	}
	return n, err
}

// bigText differs everywhere.
func bigText(n int) string {
	b := make([]byte, n)
	state := uint32(1)
	for i := range b {
		state = state*1664525 + 1013904223
		b[i] = byte(state >> 24)
	}
	return string(b)
}

func (s *fileServer) local(text string) string {
	s.Helper()
	name := filepath.Join(s.TempDir(), "local")
	s.ok(os.WriteFile(name, []byte(text), 0o750))
	return name
}

func (s *fileServer) text(name string) string {
	s.Helper()
	text, err := os.ReadFile(name)
	s.ok(err)
	return string(text)
}

func TestUploadAndDownloadThroughCuts(t *testing.T) {
	s := newFileServer(t)
	text := bigText(11 << 20)
	local := s.local(text)
	drops, last := 0, int64(0)
	opts := &client.TransferOptions{
		OnDrop: func(client.Drop) { drops++ },
		OnProgress: func(done, total int64) {
			if done < last || total != int64(len(text)) {
				t.Errorf("%d of %d after %d", done, total, last)
			}
			last = done
		},
	}
	file, err := s.client(8, 1<<20).Upload(t.Context(), local, "work/sub/big", opts)
	s.ok(err)
	if s.text(filepath.Join(s.dir, "sub/big")) != text || file.Size != int64(len(text)) || file.Mode != "0750" ||
		drops == 0 {
		t.Errorf("%+v after %d drops", file, drops)
	}
	if last != file.Size {
		t.Errorf("progress ended at %d", last)
	}

	drops, last = 0, 0
	to := filepath.Join(t.TempDir(), "got")
	got, err := s.client(8, 1<<20).Download(t.Context(), "work/sub/big", to, opts)
	s.ok(err)
	info, err := os.Stat(to)
	s.ok(err)
	if s.text(to) != text || got.SHA256 != file.SHA256 || info.Mode().Perm() != 0o750 || drops == 0 {
		t.Errorf("%+v after %d drops", got, drops)
	}
	left, err := os.ReadDir(filepath.Dir(to))
	s.ok(err)
	if len(left) != 1 {
		t.Errorf("left beside it: %v", left)
	}
}

// A client that was killed, and a server that was, are no reason to send again what has arrived.
func TestTransfersGoOnInAnotherProcess(t *testing.T) {
	s := newFileServer(t)
	text := bigText(9 << 20)
	local, to := s.local(text), filepath.Join(t.TempDir(), "got")
	killed := func(do func(ctx context.Context, opts *client.TransferOptions) error) {
		t.Helper()
		ctx, kill := context.WithCancel(t.Context())
		defer kill()
		err := do(ctx, &client.TransferOptions{OnProgress: func(done, _ int64) {
			if done >= 4<<20 {
				kill()
			}
		}})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%v", err)
		}
	}
	first := int64(-1)
	opts := &client.TransferOptions{OnProgress: func(done, _ int64) {
		if first < 0 {
			first = done
		}
	}}
	killed(func(ctx context.Context, opts *client.TransferOptions) error {
		_, err := s.client(0, 0).Upload(ctx, local, "work/big", opts)
		return err
	})
	if _, err := os.Stat(filepath.Join(s.dir, "big")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("half an upload is there: %v", err)
	}
	_, err := s.client(0, 0).Upload(t.Context(), local, "work/big", opts)
	s.ok(err)
	if first < 4<<20 {
		t.Errorf("the upload went on at %d", first)
	}
	killed(func(ctx context.Context, opts *client.TransferOptions) error {
		_, err := s.client(0, 0).Download(ctx, "work/big", to, opts)
		return err
	})
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("half a download is there: %v", err)
	}
	first = -1
	_, err = s.client(0, 0).Download(t.Context(), "work/big", to, opts)
	s.ok(err)
	if first < 4<<20 || s.text(to) != text {
		t.Errorf("the download went on at %d", first)
	}
	// What is there already is not sent again.
	first = -1
	_, err = s.client(0, 0).Upload(t.Context(), local, "work/big", opts)
	if err != nil || first != int64(len(text)) {
		t.Errorf("the third time began at %d: %v", first, err)
	}
}

func TestFileThatChangesIsNoDownload(t *testing.T) {
	s := newFileServer(t)
	at := filepath.Join(s.dir, "x")
	s.ok(os.WriteFile(at, []byte(bigText(8<<20)), 0o600))
	to := filepath.Join(t.TempDir(), "got")
	changed := false
	_, err := s.client(0, 0).Download(t.Context(), "work/x", to,
		&client.TransferOptions{OnProgress: func(done, _ int64) {
			if done > 1<<20 && !changed {
				changed = true
				s.ok(os.WriteFile(at, make([]byte, 8<<20), 0o600))
			}
		}})
	if !errors.Is(err, client.ErrFileChanged) {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(to)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	local := s.local(bigText(8 << 20))
	changed = false
	_, err = s.client(0, 0).Upload(t.Context(), local, "work/y",
		&client.TransferOptions{OnProgress: func(done, _ int64) {
			if done > 0 && !changed {
				changed = true
				s.ok(os.WriteFile(local, make([]byte, 8<<20), 0o600))
			}
		}})
	if !errors.Is(err, client.ErrFileChanged) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "y")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("two versions in one: %v", err)
	}
}

// A part whose bytes a crash has damaged is not believed.
func TestDamagedPartIsBegunAnew(t *testing.T) {
	s := newFileServer(t)
	text := bigText(1 << 20)
	s.ok(os.WriteFile(filepath.Join(s.dir, "x"), []byte(text), 0o600))
	to := filepath.Join(t.TempDir(), "got")
	ctx, kill := context.WithCancel(t.Context())
	_, err := s.client(0, 0).Download(ctx, "work/x", to, &client.TransferOptions{OnProgress: func(done, _ int64) {
		if done > 0 {
			kill()
		}
	}})
	if err == nil {
		t.Fatal("a download that was given up has succeeded")
	}
	parts, err := filepath.Glob(filepath.Join(filepath.Dir(to), ".reprise-*.part"))
	if err != nil || len(parts) != 1 {
		t.Fatal(parts, err)
	}
	s.ok(os.WriteFile(parts[0], make([]byte, 1000), 0o600))
	if _, err := s.client(0, 0).Download(t.Context(), "work/x", to, nil); err != nil || s.text(to) != text {
		t.Errorf("%v", err)
	}
}

func TestTransfersThatCannotBe(t *testing.T) {
	s := newFileServer(t)
	c := s.client(0, 0)
	s.ok(os.Mkdir(filepath.Join(s.dir, "dir"), 0o700))
	s.ok(os.WriteFile(filepath.Join(s.dir, "x"), []byte("X"), 0o600))
	s.ok(os.WriteFile(filepath.Join(s.dir, "empty"), nil, 0o600))
	s.ok(os.Symlink("x", filepath.Join(s.dir, "link")))
	local, dir := s.local("x"), t.TempDir()
	keep := &client.TransferOptions{Keep: true}
	for name, tt := range map[string]struct {
		err  error
		want error
	}{
		"upload a directory":        {second(c.Upload(t.Context(), dir, "work/y", nil)), nil},
		"upload nothing":            {second(c.Upload(t.Context(), dir+"/none", "work/y", nil)), fs.ErrNotExist},
		"upload over a directory":   {second(c.Upload(t.Context(), local, "work/dir", nil)), reprise.ErrConflict},
		"upload over a file":        {second(c.Upload(t.Context(), local, "work/x", keep)), reprise.ErrConflict},
		"upload elsewhere":          {second(c.Upload(t.Context(), local, "none/x", nil)), reprise.ErrNotFound},
		"download a directory":      {second(c.Download(t.Context(), "work/dir", dir+"/y", nil)), reprise.ErrInvalid},
		"download nothing":          {second(c.Download(t.Context(), "work/none", dir+"/y", nil)), reprise.ErrNotFound},
		"download over a directory": {second(c.Download(t.Context(), "work/x", dir, nil)), nil},
		"download over a file":      {second(c.Download(t.Context(), "work/x", local, keep)), fs.ErrExist},
	} {
		if tt.err == nil || tt.want != nil && !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v", name, tt.err)
		}
	}
	for from, want := range map[string]string{"work/link": "X", "work/empty": ""} {
		to := filepath.Join(dir, filepath.Base(from))
		if _, err := c.Download(t.Context(), from, to, nil); err != nil || s.text(to) != want {
			t.Errorf("%s: %v", from, err)
		}
		if _, err := c.Upload(t.Context(), to, from+"-copy", nil); err != nil {
			t.Errorf("%s: %v", from, err)
		}
	}
}

func second(_ client.File, err error) error { return err }

func TestFileCalls(t *testing.T) {
	s := newFileServer(t)
	c := s.client(0, 0)
	_, err := c.MakeDirectory(t.Context(), "work/a/b", "")
	s.ok(err)
	for _, name := range []string{"work/a/1.txt", "work/a/2.txt", "work/a/\xff"} {
		_, err = c.Upload(t.Context(), s.local("needle"), name, nil)
		s.ok(err)
	}
	var got []string
	for cursor := ""; ; {
		list, err := c.ListFiles(t.Context(), "work/a", 2, cursor)
		s.ok(err)
		for _, file := range list.Files {
			got = append(got, file.Name()+" "+file.Type)
		}
		if cursor = list.NextCursor; cursor == "" {
			break
		}
	}
	if want := []string{"1.txt file", "2.txt file", "b directory", "\xff file"}; !slices.Equal(got, want) {
		t.Errorf("listed %q", got)
	}
	found, err := c.SearchFiles(t.Context(), client.FileQuery{Path: "work", Name: "1*", Text: "needle"})
	if err != nil || len(found.Files) != 1 || found.Files[0].Line != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	moved, err := c.MoveFile(t.Context(), "work/a/1.txt", "work/one", false)
	if err != nil || moved.Path != "work/one" {
		t.Errorf("%+v, %v", moved, err)
	}
	moded, err := c.SetFileMode(t.Context(), "work/one", "0600")
	if err != nil || moded.Mode != "0600" {
		t.Errorf("%+v, %v", moded, err)
	}
	s.ok(c.RemoveFile(t.Context(), "work/a", true))
	s.ok(c.RemoveFile(t.Context(), "work/a", true))
	if _, err := c.ShowFile(t.Context(), "work/a"); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if raw, err := c.ShowFile(t.Context(), "work/one"); err != nil || !strings.Contains(string(raw.Raw), `"work/one"`) {
		t.Errorf("%s, %v", raw.Raw, err)
	}
}

func TestWatchIsFollowedThroughCuts(t *testing.T) {
	s := newFileServer(t)
	c := s.client(20, 1500) // a few changes each
	watch, err := s.client(0, 0).StartWatch(t.Context(), "work", true)
	s.ok(err)
	const n = 30
	var got []string
	s.ok(os.WriteFile(filepath.Join(s.dir, "00"), nil, 0o600))
	for event, err := range c.FollowWatch(t.Context(), watch.ID, &client.FollowOptions{After: watch.Cursor}) {
		s.ok(err)
		change, err := event.FileChange()
		s.ok(err)
		got = append(got, event.Type+" "+change.Path)
		if len(got) == n {
			break
		}
		name := []byte{byte('0' + len(got)/10), byte('0' + len(got)%10)}
		s.ok(os.WriteFile(filepath.Join(s.dir, string(name)), nil, 0o600))
	}
	for i, text := range got {
		if want := "created work/" + string([]byte{byte('0' + i/10), byte('0' + i%10)}); text != want {
			t.Errorf("change %d: %s", i, text)
		}
	}
}
