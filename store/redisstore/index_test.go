package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"reprise"
)

var everything = reprise.ListQuery{AllNamespaces: true, Limit: 1000}

// What a crash or a failover has left half done is put right: places for nothing, and streams that have ended and are
// not among those that expire.
func TestHalfWrittenIndexIsRepaired(t *testing.T) {
	on := server(t)
	url := place(t, on)
	s := mustOpen(t, url, nil)
	_, prefix, _ := strings.Cut(url, "prefix=")
	index := func(name string) string { return prefix + ":{" + prefix + "}:" + name }

	ended, live, gone := create(t, s, "ended"), create(t, s, "live"), create(t, s, "gone")
	req := one(&ended, []byte("end"))
	req.End = &reprise.End{
		Outcome: "completed",
		Time:    time.Now().Add(-2 * time.Hour),
		Expires: time.Now().Add(-time.Hour),
	}
	if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
		t.Fatal(errs)
	}
	command(t, on, "DEL", index("ends"))
	command(t, on, "DEL", prefix+":{"+gone.Key.String()+"}:state")
	young := fmt.Sprintf("4:%d:default/young", time.Now().UnixMilli())
	old := fmt.Sprintf("5:%d:default/old", time.Now().Add(-time.Hour).UnixMilli())
	command(t, on, "SET", index("number"), "5")
	command(t, on, "ZADD", index("list"), "4", young, "5", old)
	late := fmt.Sprint(time.Now().Add(-time.Hour).UnixMilli())
	command(t, on, "ZADD", index("ends"), late, "EPOCH:default/never", late, string(live.Epoch)+":"+live.Key.String())

	page, err := s.List(t.Context(), everything)
	must(t, err)
	if len(page.Streams) != 2 || page.Streams[0].Key != live.Key || page.Streams[1].Key != ended.Key {
		t.Errorf("listed: %+v", page.Streams)
	}
	if left := command(t, on, "ZRANGE", index("list"), "0", "-1"); strings.Contains(left, "old") ||
		!strings.Contains(left, "young") {
		t.Errorf("the list holds %s", left)
	}
	sizes, err := s.Sizes(t.Context())
	must(t, err)
	if size := sizes[reprise.DefaultTenant]; size.Streams != 2 || size.Events != 1 {
		t.Errorf("%+v", size)
	}
	swept, err := s.Sweep(t.Context(), time.Now(), time.Now().Add(time.Hour), 10)
	must(t, err)
	if len(swept) != 1 || swept[0].Key != ended.Key {
		t.Errorf("swept: %+v", swept)
	}
	if left := command(t, on, "ZCARD", index("ends")); left != "0" {
		t.Errorf("%s are left among those that expire", left)
	}
	appendN(t, s, &live, 1)
}
