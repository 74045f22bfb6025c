package main

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"reprise/client"
	"reprise/internal/testserver"
)

// A server that is killed in the middle of an upload and of a download is no more than a pause in them.
func TestTransfersOutliveTheServer(t *testing.T) {
	dir := testserver.TempDir(t)
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	v := newVictim(t, dir, "--files", "work="+root)
	c := v.client
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
				v.killAndStart()
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
