package main

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise/client"
)

// A server that is killed in the middle of an upload and of a download is no more than a pause in them.
func TestTransfersOutliveTheServer(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	start := func(listen string) *daemon {
		t.Helper()
		d, err := startDaemon(os.Environ(), dir, dir+"/server.log", "--listen", listen, "--data", dir+"/data",
			"--log-level", "error", "--files", "work="+root)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	server := start(freeAddress(t))
	defer func() { _ = server.kill() }()
	token, err := os.ReadFile(dir + "/data/token")
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(&client.Options{
		URL: "http://" + server.addr, Token: strings.TrimSpace(string(token)),
		MinWait: 10 * time.Millisecond, MaxWait: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, 20<<20)
	_, _ = rand.Read(content)
	local, back := filepath.Join(dir, "local"), filepath.Join(dir, "back")
	if err := os.WriteFile(local, content, 0o600); err != nil {
		t.Fatal(err)
	}
	kills := 0
	opts := func() *client.TransferOptions {
		killed := false
		return &client.TransferOptions{
			OnProgress: func(done, total int64) {
				if killed || done < 4<<20 || done >= total {
					return
				}
				killed = true
				kills++
				if err := server.kill(); err != nil {
					t.Error(err)
				}
				server = start(server.addr)
			},
		}
	}
	if _, err := c.Upload(t.Context(), local, "work/sub/file", opts()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Download(t.Context(), "work/sub/file", back, opts()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(back)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	if kills != 2 {
		t.Errorf("%d kills", kills)
	}
}
