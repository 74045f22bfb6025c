package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"reprise/internal/backoff"
)

// receiptsHeader announces in a request that the loop sends receipts. In an answer it is the number of bytes that the
// server lets lie without a receipt.
const receiptsHeader = "Execution-Receipts"

// receipts report handled events to a server that holds output back. Sent but unhandled events may be lost with the
// connection, so the server keeps them. A separate goroutine sends the receipts: a quarter of the allowed bytes makes a
// receipt due immediately, less makes it due after receiptEvery.
type receipts struct {
	c       *Client
	request *request
	// enough are the events and bytes that make a receipt due.
	enoughEvents, enoughBytes int
	every                     time.Duration

	mu            sync.Mutex
	seq           uint64 // of the last event that was handled
	events, bytes int    // that were handled since the last receipt

	some, many chan struct{} // of size 1: a receipt is due later, or at once
	stop       func()        // ends the goroutine and waits for it
}

const (
	// receiptEvery is the longest delay of a receipt for a few events. It is shorter for a server with little patience.
	receiptEvery = time.Second
	// receiptTimeout bounds one try to send a receipt: the server counts the time.
	receiptTimeout = 5 * time.Second
	// The spans of the first and of the longest pause after a failed receipt.
	minReceiptPause = 50 * time.Millisecond
	maxReceiptPause = 10 * time.Second
)

// startReceipts returns nil unless the header of an answer to f requests receipts.
func startReceipts(ctx context.Context, f *follower, head http.Header) *receipts {
	var events, bytes int
	if _, err := fmt.Sscanf(head.Get(receiptsHeader), "events=%d, bytes=%d", &events, &bytes); err != nil {
		return nil
	}
	every := receiptEvery
	if patience, err := time.ParseDuration(f.start.query.Get("hold")); err == nil {
		every = min(every, patience/4)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	rc := &receipts{
		c: f.c, request: &request{
			op: f.op, method: http.MethodPost, path: f.path + "/receipts", query: url.Values{},
			header: http.Header{"Execution-Hold": {head.Get("Execution-Hold")}},
		},
		enoughEvents: max(1, events/4), enoughBytes: max(1, bytes/4), every: every,
		some: make(chan struct{}, 1), many: make(chan struct{}, 1),
		stop: func() { cancel(); <-done },
	}
	go func() {
		defer close(done)
		rc.run(ctx)
	}()
	return rc
}

// handled records an event that the loop has handled. It does not block. A nil receipts does nothing.
func (rc *receipts) handled(seq uint64, size int) {
	if rc == nil {
		return
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.seq = seq
	rc.events++
	rc.bytes += size
	due := rc.some
	if rc.events >= rc.enoughEvents || rc.bytes >= rc.enoughBytes {
		due = rc.many
	}
	select {
	case due <- struct{}{}:
	default:
	}
}

// run sends receipts until ctx is done.
func (rc *receipts) run(ctx context.Context) {
	wait := backoff.Backoff{First: minReceiptPause, Most: maxReceiptPause}
	for rc.await(ctx) {
		if rc.send(ctx) == nil {
			wait.Reset()
			continue
		}
		if wait.Wait(ctx) != nil {
			return
		}
		select {
		case rc.some <- struct{}{}:
		default:
		}
	}
}

// await waits until a receipt is due. It is false when ctx is done.
func (rc *receipts) await(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-rc.many:
		return true
	case <-rc.some:
	}
	timer := time.NewTimer(rc.every)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-rc.many:
	case <-timer.C:
	}
	return true
}

// send sends one receipt, for all that was handled.
func (rc *receipts) send(ctx context.Context) error {
	rc.mu.Lock()
	rc.events, rc.bytes = 0, 0
	rc.request.query.Set("seq", strconv.FormatUint(rc.seq, 10))
	rc.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, receiptTimeout, errTimeout)
	defer cancel()
	return rc.c.try(ctx, rc.request, nil)
}
