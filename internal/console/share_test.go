package console_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A browser opens six connections to a server over HTTP/1.1.
const manyTabs = 10

// tabs opens tabs of one browser profile, each at its stream.
func (s *server) tabs(b *browser, stream func(i int) string) []*page {
	s.Helper()
	first := s.login(b, 900, 600, "")
	first.text("Nothing has run yet")
	tabs := []*page{first}
	for len(tabs) < manyTabs {
		tabs = append(tabs, first.another(900, 600))
	}
	for i, p := range tabs {
		p.visit(s.url + "/?tab#/streams/" + stream(i))
	}
	return tabs
}

// publish publishes one event.
func (s *server) publish(stream, data string) {
	s.Helper()
	s.call("POST", "/v1/streams/"+stream+"/events", map[string]any{"type": "note", "data": data})
}

// readers is the number of open readers as the server counts them.
func (s *server) readers() string {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), "GET", s.url+"/metrics", nil)
	check(s, err)
	r.Header.Set("Authorization", "Bearer "+s.token)
	answer, err := http.DefaultClient.Do(r)
	check(s, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	check(s, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "reprise_readers "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// hasReaders waits until the server has so many readers.
func (s *server) hasReaders(want int) {
	s.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); s.readers() != fmt.Sprint(want); <-tick.C {
		if time.Now().After(deadline) {
			s.Fatalf("there are %s readers, want %d", s.readers(), want)
		}
	}
}

// sharing waits until a tab is live over the connection that it shares with all others.
func (p *page) sharing(tabs int) {
	p.Helper()
	p.until(fmt.Sprintf(`document.querySelector(".phase").textContent.includes("Live · shared with %d other")`, tabs-1))
}

// TestTabsOnManyStreams: more tabs than the browser has connections are live at once, each on a stream of its own, also
// when one of them is closed, another one cuts the connection, or the server is killed. (G1, G2, G3)
func TestTabsOnManyStreams(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	stream := func(i int) string { return fmt.Sprint("news", i) }
	for i := range manyTabs {
		s.call("PUT", "/v1/streams/"+stream(i), map[string]any{})
	}
	tabs := s.tabs(startBrowser(t), stream)
	last := 0
	publish := func() {
		t.Helper()
		last++
		for i := manyTabs - len(tabs); i < manyTabs; i++ {
			s.publish(stream(i), fmt.Sprintf("%d for %d", last, i))
		}
	}
	arrived := func() {
		t.Helper()
		for i, p := range tabs {
			p.text(fmt.Sprintf("%d for %d", last, i+manyTabs-len(tabs)))
			p.whole(last)
		}
	}
	for _, p := range tabs {
		p.sharing(len(tabs))
	}
	s.hasReaders(manyTabs)
	publish()
	arrived()

	tabs[0].close()
	tabs = tabs[1:]
	publish()
	arrived()
	for _, p := range tabs {
		p.sharing(len(tabs))
	}
	s.hasReaders(len(tabs))

	// The connection is closed under all. One of them stays away.
	away := tabs[0]
	away.click("button", "Cut the connection")
	away.until(phase + `.includes("phase-cut")`)
	publish()
	for i, p := range tabs[1:] {
		p.text(fmt.Sprintf("%d for %d", last, i+1+manyTabs-len(tabs)))
		p.whole(last)
	}
	away.until(counted("missed while away") + " === 1")
	if n := away.eval(counted("received")); n != float64(last-1) {
		t.Errorf("the tab that is cut off has received %v events", n)
	}
	away.click("button", "Resume")
	arrived()

	s.kill()
	for _, p := range tabs {
		p.text("Connection lost")
	}
	s.start()
	publish()
	arrived()
	for _, p := range tabs {
		p.sharing(len(tabs))
		p.clean(s.url)
	}
}

// TestTabsOnOneStream: tabs that follow the same stream are one reader for the server, and each has each event once
// while they come, are cut off and close. (G1, G2, G3)
func TestTabsOnOneStream(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.call("PUT", "/v1/streams/news", map[string]any{})
	tabs := s.tabs(startBrowser(t), func(int) string { return "news" })
	for _, p := range tabs {
		p.sharing(len(tabs))
	}
	s.hasReaders(1)
	last := 0
	for len(tabs) > 2 {
		for range 10 {
			last++
			s.publish("news", fmt.Sprint("event ", last))
		}
		tabs[1].click(".cut", "Cut the connection")
		tabs[1].until(phase + `.includes("phase-cut")`)
		last++
		s.publish("news", fmt.Sprint("event ", last))
		tabs[1].click(".cut", "Resume")
		tabs[0].close()
		tabs[2].close()
		tabs = append([]*page{tabs[1]}, tabs[3:]...)
	}
	s.call("POST", "/v1/streams/news/end", map[string]any{"outcome": "completed"})
	for _, p := range tabs {
		p.until(phase + `.includes("phase-ended")`)
		p.whole(last + 1)
		p.clean(s.url)
	}
	s.hasReaders(0)
}
