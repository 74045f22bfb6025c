package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"reprise"
	"reprise/client"
	"reprise/cmd/reprise/internal/detach"
	"reprise/internal/backoff"
)

const (
	// maxTyped bounds the typed bytes that are kept while the server is unreachable. Then reading stops.
	maxTyped = 1 << 20
	// maxSent bounds the bytes of one request.
	maxSent = 64 << 10
	// sendPatience bounds one try, since a dead connection never answers.
	sendPatience = 10 * time.Second
	// sendPause is the pause after a try that failed at once.
	sendPause = 200 * time.Millisecond
)

// keyboard sends typed bytes to the command, each once.
type keyboard struct {
	server *client.Client
	id     string
	// writer identifies this keyboard to the server, which counts the bytes of each writer separately.
	writer string
	// refused is called for keys that the command does not accept.
	refused func()

	mu      sync.Mutex
	changed *sync.Cond
	typed   []byte
	closed  bool // no more keys are typed or accepted
}

func newKeyboard(server *client.Client, id, writer string, refused func()) *keyboard {
	k := &keyboard{server: server, id: id, writer: writer, refused: refused}
	k.changed = sync.NewCond(&k.mu)
	return k
}

// read reads keys until the end of in or the detach keys, which are not passed on.
func (k *keyboard) read(in io.Reader, keys detach.Keys) (detached bool) {
	find := &detach.Detector{Keys: keys}
	var held sync.Mutex // guards find
	release := time.AfterFunc(detach.Patience, func() {
		held.Lock()
		defer held.Unlock()
		k.add(find.Release())
	})
	defer release.Stop()
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		held.Lock()
		pass, detached := find.Take(buf[:n])
		if err != nil {
			pass = append(pass, find.Release()...)
		}
		k.add(pass)
		held.Unlock()
		release.Reset(detach.Patience)
		if detached || err != nil {
			return detached
		}
	}
}

// add queues keys to be sent. It waits while the queue is full.
func (k *keyboard) add(keys []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.typed) > maxTyped && !k.closed {
		k.changed.Wait()
	}
	if k.closed && len(keys) > 0 {
		k.refused()
		return
	}
	k.typed = append(k.typed, keys...)
	k.changed.Broadcast()
}

// next waits for keys.
func (k *keyboard) next() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.typed) == 0 && !k.closed {
		k.changed.Wait()
	}
	return k.typed[:min(len(k.typed), maxSent)]
}

// sent removes n sent bytes.
func (k *keyboard) sent(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.typed = k.typed[n:]
	k.changed.Broadcast()
}

// close ends all waits.
func (k *keyboard) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.changed.Broadcast()
}

// send sends typed bytes until ctx is done or the command accepts no more. While the server is unreachable it retries.
// The error is that of a server that refuses.
func (k *keyboard) send(ctx context.Context) error {
	defer k.close()
	defer context.AfterFunc(ctx, k.close)()
	var offset int64
	for {
		keys := k.next()
		if len(keys) == 0 {
			return nil
		}
		state, err := k.try(ctx, client.StdinWrite{Offset: offset, Writer: k.writer, Data: keys})
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && state.Offset == offset+int64(len(keys)):
			offset = state.Offset
			k.sent(len(keys))
		case err == nil:
			return fmt.Errorf("%w: stdin is at %d after %d bytes at %d",
				client.ErrProtocol, state.Offset, len(keys), offset)
		case errors.Is(err, reprise.ErrEnded):
			k.refused()
			return nil
		case !undelivered(err) && !errors.Is(err, errSilent):
			return err
		default:
			_ = backoff.Sleep(ctx, sendPause)
		}
	}
}

// try sends once, with retries for at most sendPatience.
func (k *keyboard) try(ctx context.Context, w client.StdinWrite) (client.Stdin, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sendPatience, errSilent)
	defer cancel()
	return k.server.WriteStdinAt(ctx, k.id, w)
}

var errSilent = errors.New("the server has not answered")
