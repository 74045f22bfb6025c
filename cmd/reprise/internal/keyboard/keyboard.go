// Package keyboard sends what is typed to a command on a server, each byte once, over connections that break.
package keyboard

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
	// Patience bounds one try, since a dead connection never answers.
	Patience = 10 * time.Second
	// sendPause is the pause after a try that failed at once.
	sendPause = 200 * time.Millisecond
)

// Options are about a Keyboard.
type Options struct {
	Server *client.Client
	// ID is the id of the execution.
	ID string
	// Writer identifies the Keyboard to the server, which counts the bytes of each writer separately.
	Writer string
	// Refused is called for keys that the command does not accept.
	Refused func()
	// Again reports whether another try may reach the server after an error.
	Again func(error) bool
}

// Keyboard sends typed bytes to a command, each once.
type Keyboard struct {
	opts Options

	mu      sync.Mutex
	changed *sync.Cond
	typed   []byte
	closed  bool // no more keys are typed or accepted
}

// New returns a Keyboard without keys.
func New(opts Options) *Keyboard {
	k := &Keyboard{opts: opts}
	k.changed = sync.NewCond(&k.mu)
	return k
}

// Read reads keys until the end of in or the detach keys, which are not passed on.
func (k *Keyboard) Read(in io.Reader, keys detach.Keys) (detached bool) {
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
func (k *Keyboard) add(keys []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.typed) > maxTyped && !k.closed {
		k.changed.Wait()
	}
	if k.closed && len(keys) > 0 {
		k.opts.Refused()
		return
	}
	k.typed = append(k.typed, keys...)
	k.changed.Broadcast()
}

// next waits for keys.
func (k *Keyboard) next() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.typed) == 0 && !k.closed {
		k.changed.Wait()
	}
	return k.typed[:min(len(k.typed), maxSent)]
}

// sent removes n sent bytes.
func (k *Keyboard) sent(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.typed = k.typed[n:]
	k.changed.Broadcast()
}

// Close ends all waits.
func (k *Keyboard) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.changed.Broadcast()
}

// Send sends typed bytes until ctx is done or the command accepts no more. While the server is unreachable it retries.
// The error comes from a server that refuses.
func (k *Keyboard) Send(ctx context.Context) error {
	defer k.Close()
	defer context.AfterFunc(ctx, k.Close)()
	var offset int64
	for {
		keys := k.next()
		if len(keys) == 0 {
			return nil
		}
		state, err := k.try(ctx, client.StdinWrite{Offset: offset, Writer: k.opts.Writer, Data: keys})
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
			k.opts.Refused()
			return nil
		case !k.opts.Again(err) && !errors.Is(err, errSilent):
			return err
		default:
			_ = backoff.Sleep(ctx, sendPause)
		}
	}
}

// try sends once, with retries for at most Patience.
func (k *Keyboard) try(ctx context.Context, w client.StdinWrite) (client.Stdin, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, Patience, errSilent)
	defer cancel()
	return k.opts.Server.WriteStdinAt(ctx, k.opts.ID, w)
}

var errSilent = errors.New("the server has not answered")
