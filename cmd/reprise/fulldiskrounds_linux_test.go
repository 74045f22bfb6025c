package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reprise/client"
)

// TestFullDiskAgainAndAgain fills a small disk again and again and kills the server at the full mark. Nothing that was
// acknowledged is missing, the server starts on the full disk, and when streams were removed new ones can be made. Of
// streams that have ended, the oldest make room for new ones. "make soak" has 100 rounds.
func TestFullDiskAgainAndAgain(t *testing.T) {
	t.Parallel()
	rounds := 3
	if soaking() {
		rounds = 100
	}
	for _, store := range []string{"log:", "sqlite:"} {
		for name, mount := range map[string]func(*testing.T) string{"tmpfs": smallTmpfs, "ext4": smallExt4} {
			t.Run(store+name, func(t *testing.T) {
				t.Parallel()
				f := &filling{t: t, dir: mount(t)}
				f.victim = newVictim(t, f.dir, "--store", store)
				f.readToken()
				for f.round = range rounds {
					f.fill()
					f.look()
					if f.round%2 == 0 {
						f.remove()
					} else {
						f.end()
					}
					if t.Failed() {
						t.Fatalf("in round %d", f.round)
					}
				}
			})
		}
	}
}

// smallBytes is the size of the small disks.
const smallBytes = 24 << 20

// smallTmpfs is a directory on a tmpfs.
func smallTmpfs(t *testing.T) string {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", smallBytes)); err != nil {
		t.Skip("needs to mount a small file system: ", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// smallExt4 is a directory on an ext4 on a loop device.
func smallExt4(t *testing.T) string {
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	check(t, os.WriteFile(image, nil, 0o600))
	check(t, os.Truncate(image, smallBytes))
	for _, command := range [][]string{{"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("needs to mount an ext4: %s: %v: %s", command[0], err, out)
		}
	}
	t.Cleanup(func() { check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// filling is a server whose disk gets full.
type filling struct {
	t     *testing.T
	dir   string
	round int
	*victim
	token string
	// streams are those of this round: how many events were acknowledged of each.
	streams map[string]int
}

// readToken reads the token, for requests that are not tried again.
func (f *filling) readToken() {
	token, err := os.ReadFile(filepath.Join(f.dir, "data", "token"))
	check(f.t, err)
	f.token = strings.TrimSpace(string(token))
}

// send makes one request and returns the status, 0 if there was no answer.
func (f *filling) send(method, path string, body []byte) int {
	req, err := http.NewRequestWithContext(f.t.Context(), method, "http://"+f.addr+path, bytes.NewReader(body))
	check(f.t, err)
	req.Header.Set("Authorization", "Bearer "+f.token)
	req.Header.Set("Content-Type", "application/octet-stream")
	if method == http.MethodPut {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// event is the n-th event of a stream, of up to 64 KiB.
func event(name string, n int) []byte {
	text := fmt.Appendf(nil, "%s:%d ", name, n)
	return bytes.Repeat(text, 1+(n*7919)%(64<<10)/len(text))
}

// fill publishes to three streams that stay open, until the disk is full, and kills the server while it still does.
func (f *filling) fill() {
	f.t.Helper()
	f.streams = map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	full, stop := make(chan struct{}, 3), make(chan struct{})
	var names []string
	for i := range 3 { // all of them before the first has filled the disk
		name := fmt.Sprintf("open%d-%d", f.round, i)
		names = append(names, name)
		if status := f.send(http.MethodPut, "/v1/streams/"+name, []byte("{}")); status != http.StatusCreated {
			f.t.Fatalf("new stream %s: %d", name, status)
		}
	}
	for _, name := range names {
		all.Go(func() {
			for n, refused := 0, 0; ; {
				select {
				case <-stop:
					return
				default:
				}
				switch status := f.send(http.MethodPost, "/v1/streams/"+name+"/events", event(name, n)); status {
				case http.StatusOK, http.StatusCreated:
					n++
					mu.Lock()
					f.streams[name] = n
					mu.Unlock()
				case http.StatusServiceUnavailable:
					if refused++; refused == 3 {
						full <- struct{}{}
					}
				case 0: // killed
				default:
					f.t.Errorf("publish: status %d", status)
					full <- struct{}{}
					return
				}
			}
		})
	}
	for range 3 {
		<-full
	}
	<-time.After(rand.N(40 * time.Millisecond)) // a moment like any other
	check(f.t, f.kill())
	close(stop)
	all.Wait()
	f.daemon = f.start(f.addr)
}

// look reads the streams: what was acknowledged is there, and whatever is there is right.
func (f *filling) look() {
	f.t.Helper()
	for name, acknowledged := range f.streams {
		n := 0
		for page := (client.Page{}); ; {
			var err error
			page, err = f.client.PageStream(f.t.Context(), name, &client.PageOptions{After: page.NextCursor})
			check(f.t, err)
			for _, e := range page.Events {
				if want := event(name, n); !bytes.Equal(e.Data, want) {
					f.t.Fatalf("%s: event %d is %.40q", name, n, e.Data)
				}
				n++
			}
			if len(page.Events) == 0 {
				break
			}
		}
		if n < acknowledged {
			f.t.Errorf("%s has %d events, %d were acknowledged", name, n, acknowledged)
		}
		f.streams[name] = n
	}
}

// remove removes the streams of the round on a disk that others have filled to the last byte.
func (f *filling) remove() {
	f.t.Helper()
	ballast := filepath.Join(f.dir, "ballast")
	fillDisk(f.t, ballast)
	for name := range f.streams {
		if status := f.send(http.MethodDelete, "/v1/streams/"+name, nil); status != http.StatusNoContent {
			f.t.Errorf("DELETE on a full disk: %d", status)
		}
	}
	f.publish("removed")
	check(f.t, f.client.RemoveStream(f.t.Context(), "removed"))
	check(f.t, os.Remove(ballast))
}

// end removes one stream, which gives the others room for their ends, and publishes more than the disk has room for:
// the ended ones go.
func (f *filling) end() {
	f.t.Helper()
	first := true
	for name, n := range f.streams {
		if first {
			first = false
			f.send(http.MethodDelete, "/v1/streams/"+name, nil)
			continue
		}
		if _, err := f.client.Producer(name).End(f.t.Context(), "completed", nil); err != nil {
			f.t.Errorf("the end of a stream of %d events: %v", n, err)
		}
	}
	for n := range 12 {
		name := fmt.Sprintf("ended%d-%d", f.round, n)
		f.publish(name)
		ctx, cancel := context.WithTimeout(f.t.Context(), patience)
		if _, err := f.client.Producer(name).End(ctx, "completed", nil); err != nil {
			f.t.Errorf("the end of %s: %v", name, err)
		}
		cancel()
	}
}

// publish makes a stream and publishes 2.5 MB to it, without another try.
func (f *filling) publish(name string) {
	f.t.Helper()
	if status := f.send(http.MethodPut, "/v1/streams/"+name, []byte("{}")); status != http.StatusCreated {
		f.t.Fatalf("new stream %s on a disk with room again: %d", name, status)
	}
	for n := range 40 {
		body := bytes.Repeat([]byte("x"), 64<<10)
		if status := f.send(http.MethodPost, "/v1/streams/"+name+"/events", body); status >= 300 || status == 0 {
			f.t.Fatalf("event %d of %s on a disk with room again: %d", n, name, status)
		}
	}
}
