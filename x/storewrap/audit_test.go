package storewrap_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/store/memstore"
	"reprise/x/storewrap"
)

func TestAuditedStoreKeepsContract(t *testing.T) {
	conform(t, func(_ testing.TB, inner reprise.Store) reprise.Store {
		return storewrap.Audit(inner, func(storewrap.AuditEntry) {}, nil)
	})
}

// everything makes each kind of call, some of which are refused.
func everything(t *testing.T, s reprise.Store) {
	t.Helper()
	ctx := t.Context()
	mustCreate(t, s, key("s"))
	_, err := s.Create(ctx, reprise.StreamInfo{Key: key("s"), Epoch: "7ZK3M9Q2VTX4WB8B", Config: secretConfig()})
	check(t, err)
	if _, err := s.Create(ctx, reprise.StreamInfo{Key: key("s"), Epoch: epoch}); !errors.Is(err, reprise.ErrConflict) {
		t.Error(err)
	}
	mustAppend(t, s, request(key("s"), 1, "a secret batch"))
	if errs := s.Append(ctx,
		[]reprise.AppendRequest{
			ended(key("s"), 2),
			request(key("absent"), 1, "x"),
		}); !errors.Is(errs[1], reprise.ErrNotFound) {
		t.Error(errs)
	}
	texts(t, s, key("s"))
	_, err = s.List(ctx, reprise.ListQuery{AllNamespaces: true, Limit: 10})
	check(t, err)
	check(t, s.Remove(ctx, key("s"), reprise.RemoveSpec{Trim: 2, Epoch: epoch}))
	_, err = s.(reprise.Sizer).Sizes(ctx)
	check(t, err)
	_, err = s.(reprise.Sweeper).Sweep(ctx, time.Now(), time.Now(), 10)
	check(t, err)
	check(t, s.Remove(ctx, key("s"), reprise.RemoveSpec{}))
	if _, err := s.(reprise.Watcher).Watch(key("s"), func() {}); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	check(t, s.Close())
}

func TestChangesAreRecorded(t *testing.T) {
	var text bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&text,
		&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
	who := func(context.Context) string { return "replica-1" }
	everything(t, storewrap.Audit(memstore.New(nil), storewrap.AuditTo(logger), &storewrap.AuditOptions{Who: who}))
	line := func(level, op, result, rest string) string {
		return fmt.Sprintf("level=%s msg=audit audit.op=%s audit.result=%s audit.who=replica-1 audit.tenant=default %s\n",
			level, op, result, rest)
	}
	want := line("INFO", "create", "ok", "audit.stream=s audit.epoch="+string(epoch)) +
		line("WARN", "create", "conflict", "audit.stream=s audit.epoch="+string(epoch)) +
		line("INFO", "append", "ok",
			"audit.stream=s audit.epoch="+string(epoch)+" audit.first=1 audit.last=1 audit.bytes=14") +
		line("INFO", "end", "ok",
			"audit.stream=s audit.epoch="+string(epoch)+" audit.first=2 audit.last=2 audit.bytes=21 audit.outcome=completed") +
		line("WARN", "append", "not_found",
			"audit.stream=absent audit.epoch="+string(epoch)+" audit.first=1 audit.last=1 audit.bytes=1") +
		line("INFO", "trim", "ok", "audit.stream=s audit.epoch="+string(epoch)+" audit.last=1") +
		line("INFO", "sweep", "ok",
			"audit.stream=s audit.epoch="+string(epoch)+" audit.last=2 audit.outcome=completed") +
		line("INFO", "remove", "ok", "audit.stream=s")
	if got := text.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if strings.Contains(text.String(), "secret") {
		t.Error("data was recorded")
	}
}

// TestAuditWithoutAppends leaves out what is in order, and nothing else.
func TestAuditWithoutAppends(t *testing.T) {
	var mu sync.Mutex
	var got []string
	record := func(e storewrap.AuditEntry) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, e.Op+" "+e.Result)
		if time.Since(e.Time) > time.Minute {
			t.Errorf("%+v was recorded at no time", e)
		}
	}
	everything(t, storewrap.Audit(memstore.New(nil), record, &storewrap.AuditOptions{WithoutAppends: true}))
	want := []string{"create ok", "create conflict", "end ok", "append not_found", "trim ok", "sweep ok", "remove ok"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestTakeoversAreRecorded: who is fenced off can be told from who was late.
func TestTakeoversAreRecorded(t *testing.T) {
	var got []string
	s := storewrap.Audit(memstore.New(nil), func(e storewrap.AuditEntry) {
		got = append(got, fmt.Sprint(e.Op, " ", e.Owner.Name, e.Owner.Fence, " ", e.Result))
	}, nil)
	defer s.Close()
	_, err := s.Create(t.Context(),
		reprise.StreamInfo{Key: key("s"), Epoch: epoch, Owner: reprise.Owner{Name: "a", Fence: 1}})
	check(t, err)
	for i, owner := range []reprise.Owner{{Name: "a", Fence: 1}, {Name: "b", Fence: 2}, {Name: "a", Fence: 1}} {
		req := request(key("s"), uint64(i+1), "x")
		req.Owner = owner
		_ = s.Append(t.Context(), []reprise.AppendRequest{req})
	}
	if want := []string{"create a1 ok", "append a1 ok", "append b2 ok", "append a1 fenced"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
