package execution_test

import (
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
)

// printMuch prints 4 MiB, far more than smallWindow keeps.
const printMuch = "head -c 4194304 /dev/zero | tr '\\0' x"

var smallWindow = execution.Retention{MaxBytes: 1 << 20}

// TestHoldKeepsWhatWasNotRead: a slow follower for whom output is held back gets all of it.
func TestHoldKeepsWhatWasNotRead(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h,
		execution.Request{Command: printMuch, Retention: smallWindow, Hold: execution.Duration(time.Minute)})
	hold := h.Hold(tenant, x.ID)
	if hold == nil {
		t.Fatal("nothing is held back")
	}
	r := reader(t, h, x.ID)
	defer r.Close()
	standsStill(t, h, x.ID)
	size := 0
	for e, err := range r.Events(within(t)) {
		if err != nil {
			t.Fatalf("after %d bytes: %v", size, err)
		}
		if e.Type == execution.Stdout {
			size += len(e.Data)
		}
		hold.Sent(e.Seq)
	}
	if size != 4<<20 {
		t.Errorf("%d bytes were read of %d", size, 4<<20)
	}
}

// standsStill waits until no more output comes, and returns how much there is.
func standsStill(t *testing.T, h *execution.Host, id string) int64 {
	t.Helper()
	quiet, before := 0, int64(-1)
	until(t, "no more output comes", func() bool {
		shown, err := h.Show(within(t), tenant, id)
		if quiet++; err != nil || shown.Bytes.Stdout != before {
			quiet, before = 0, shown.Bytes.Stdout
		}
		return quiet == 40
	})
	return before
}

// TestHoldCountsReceipts: what a follower was sent does not count if it sends receipts: it may be lost on its way. All
// that has no receipt is kept.
func TestHoldCountsReceipts(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h,
		execution.Request{Command: printMuch, Retention: smallWindow, Hold: execution.Duration(time.Minute)})
	hold := h.Hold(tenant, x.ID)
	if _, bytes := hold.AwaitReceipts(); bytes <= 0 || bytes > smallWindow.MaxBytes/2 {
		t.Fatalf("%d bytes may be without a receipt where %d are kept", bytes, smallWindow.MaxBytes)
	}
	size := 0
	for e, err := range reader(t, h, x.ID).Events(within(t)) {
		if err != nil {
			t.Fatalf("after %d bytes: %v", size, err)
		}
		if e.Type == execution.Stdout {
			size += len(e.Data)
		}
		hold.Sent(e.Seq)
		if size == 0 {
			standsStill(t, h, x.ID)
			hold.Sent(1 << 40)
			if printed := standsStill(t, h, x.ID); printed >= 1<<20 {
				t.Errorf("%d bytes were printed of which none has a receipt", printed)
			}
		}
		hold.Received(e.Seq)
	}
	if size != 4<<20 {
		t.Errorf("%d bytes were read of %d", size, 4<<20)
	}
}

// TestHoldLapses: a follower that takes nothing is not waited for for ever, and one without a hold never.
func TestHoldLapses(t *testing.T) {
	for _, hold := range []time.Duration{0, 50 * time.Millisecond} {
		t.Run(hold.String(), func(t *testing.T) {
			h := newHost(t, execution.Options{})
			x := start(t, h,
				execution.Request{Command: printMuch, Retention: smallWindow, Hold: execution.Duration(hold)})
			until(t, "the command ends", func() bool {
				shown, err := h.Show(within(t), tenant, x.ID)
				return err == nil && shown.Status == execution.StatusEnded
			})
			s, err := h.Stream(t.Context(), tenant, x.ID)
			if err != nil {
				t.Fatal(err)
			}
			if info, err := s.Info(t.Context()); err != nil || info.Earliest == 1 {
				t.Errorf("all of the output is kept from %d on, %v", info.Earliest, err)
			}
		})
	}
}

// TestHoldEndsWithTheRun: a run whose output is held back can be cancelled, and the server closed.
func TestHoldEndsWithTheRun(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{
		Command: "while :; do " + printMuch + "; done", Retention: smallWindow, Hold: execution.Duration(time.Hour),
	})
	until(t, "it is started", func() bool {
		shown, err := h.Show(within(t), tenant, x.ID)
		return err == nil && !shown.Started.IsZero()
	})
	if err := h.Cancel(within(t), tenant, x.ID); err != nil {
		t.Fatal(err)
	}
	// Nothing is held back from here on, so that a reader from the start might be told that it was too slow.
	var shown execution.Execution
	until(t, "it has ended", func() bool {
		var err error
		shown, err = h.Show(within(t), tenant, x.ID)
		return err == nil && shown.Status == execution.StatusEnded
	})
	wantOutcome(t, shown, execution.Cancelled, 0, "TERM")
}

// TestHoldNeedsItsToken: only a reader that presents the token makes the hold count its receipts.
func TestHoldNeedsItsToken(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{Command: "sleep 100", Hold: execution.Duration(time.Minute)})
	hold := h.Hold(tenant, x.ID)
	if hold == nil || h.Held(tenant, x.ID, hold.Token()) != hold {
		t.Error("the one who started it is not known by the token")
	}
	for _, got := range []*execution.Hold{
		h.Held(tenant, x.ID, ""), h.Held(tenant, x.ID, "x"), h.Held(reprise.Tenant("other"), x.ID, hold.Token()),
		h.Held(tenant, "other", hold.Token()),
	} {
		if got != nil {
			t.Error("somebody else is taken for the one who started it")
		}
	}
}
