package console_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"
)

var (
	manyLines      = flag.Int("lines", 100_000, "lines of the execution of TestManyLines")
	manyExecutions = flag.Int("executions", 100, "executions of TestManyExecutions")
	manyEvents     = flag.Int("events", 20_000, "events of the stream of TestManyEvents")
)

// drawn is a JavaScript expression for the number of elements in the view of the output, whatever there is of it.
const drawn = `document.querySelectorAll(".term *").length`

// work is for how long the page has run scripts, computed styles and laid itself out, in milliseconds: what depends on
// the page, and not on how the machine paints. It is time of the processor: the machine may do other things too. The
// first call begins to measure.
func (p *page) work() float64 {
	p.Helper()
	var result struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	p.call("Performance.enable", map[string]any{"timeDomain": "threadTicks"})
	check(p, json.Unmarshal(p.call("Performance.getMetrics", nil), &result))
	sum := 0.0
	for _, metric := range result.Metrics {
		switch metric.Name {
		case "ScriptDuration", "RecalcStyleDuration", "LayoutDuration":
			sum += metric.Value * 1000
		}
	}
	return sum
}

// maxFrameWork bounds the work for a frame, in milliseconds. A 60th of a second is meant, and a fourth of that
// measured; the rest is for machines that do other things too, where the clock goes on while nothing is done.
const maxFrameWork = 200.0

// TestManyLines: an output of many lines is drawn as fast as one of few, for what cannot be seen is not drawn.
func TestManyLines(t *testing.T) {
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	s.run("many", fmt.Sprintf("seq -f 'line %%.0f of many' 1 %d", *manyLines),
		map[string]any{"retention": map[string]any{"max_events": 1_000_000, "max_bytes": 1 << 30}})
	s.ended("many")
	p.eval(`began = performance.now(), location.hash = "#/executions/many"`)
	p.until(`document.querySelector(".term-text")?.textContent.startsWith("line")`)
	t.Logf("the first lines are there after %.0f ms", p.eval("performance.now() - began"))
	p.until(fmt.Sprintf("%s === %d", lineCount, *manyLines))
	t.Logf("all %d are there after %.0f ms", *manyLines, p.eval("performance.now() - began"))
	p.output(fmt.Sprintf("line %d of many", *manyLines))

	// From the beginning to the end in a hundred frames, each of which shows other lines.
	before := p.work()
	frames := p.eval(`new Promise(done => {
		const term = document.querySelector(".term"), times = []
		let last = performance.now(), n = 0
		requestAnimationFrame(function frame(now) {
			times.push(now - last)
			last = now
			term.scrollTop = n / 100 * (term.scrollHeight - term.clientHeight)
			if (n++ < 100) requestAnimationFrame(frame)
			else done(times.slice(1).sort((a, b) => a - b))
		})
	})`).([]any)
	each := (p.work() - before) / float64(len(frames))
	t.Logf("scrolling: %.1f ms of work a frame; frames: median %.1f ms, 95th %.1f ms", each, frames[50], frames[94])
	if n := p.eval(drawn).(float64); n > 400 || each > maxFrameWork {
		t.Errorf("%v elements are drawn, with %.1f ms of work a frame", n, each)
	}
	p.eval(`document.querySelector(".term").focus()`)
	// Chromium drops a key while it still animates the scrolling of the one before.
	p.eval(`(() => { const term = document.querySelector(".term")
		scrolled = new Promise(done => term.addEventListener("scrollend", () => term.scrollTop === 0 && done())) })()`)
	p.press("Home")
	p.until(`document.querySelector(".term").scrollTop === 0`)
	p.output("line 1 of many")
	p.eval("scrolled.then(() => 0)")
	p.press("End")
	p.output(fmt.Sprintf("line %d of many", *manyLines))
	p.eval("began = performance.now()")
	p.fill("[aria-label='Search output']", fmt.Sprintf("line %d of", *manyLines-7))
	p.text("1 line")
	t.Logf("searched after %.0f ms", p.eval("performance.now() - began"))
	p.press("Enter")
	p.output(fmt.Sprintf("line %d of many", *manyLines-7))
	p.whole(int(p.eval(counted("received")).(float64)))
}

// TestManyExecutions: the newest of many executions are there at once, and the oldest can be found.
func TestManyExecutions(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for i := range *manyExecutions {
		s.run(fmt.Sprintf("x%06d", i), fmt.Sprint("exit ", i%2), nil)
	}
	s.run("newest", "true", nil)
	s.ended("newest")
	p := s.login(startBrowser(t), 1280, 800, "#/server")
	p.text("events committed")
	p.eval(`began = performance.now(), location.hash = "#/executions"`)
	p.until(rowCount + " > 10")
	t.Logf("the newest of %d are there after %.0f ms", *manyExecutions, p.eval("performance.now() - began"))
	p.eval("began = performance.now()")
	p.fill("input[type=search]", "x000000")
	if *manyExecutions < 10_000 { // as far as the search goes
		p.until(rowCount + " === 1")
		t.Logf("the oldest is found after %.0f ms", p.eval("performance.now() - began"))
	}
	p.fill("input[type=search]", "")
	p.until(rowCount + " > 10")
	if n := p.eval(rowCount).(float64); n > 100 {
		t.Errorf("%v rows are drawn", n)
	}
}

// TestManyEvents: the first of many events are there at once, and all of them are counted.
func TestManyEvents(t *testing.T) {
	t.Parallel()
	const each = 1000
	s := startServer(t)
	s.call("PUT", "/v1/streams/many", map[string]any{"retention": map[string]any{
		"max_events": 1 << 30, "max_bytes": 1 << 40,
	}})
	batch := make([]map[string]any, each)
	for from := 0; from < *manyEvents; from += each {
		for i := range batch {
			batch[i] = map[string]any{"type": "note", "data": map[string]any{"n": from + i}}
		}
		s.call("POST", "/v1/streams/many/events", map[string]any{"events": batch})
	}
	p := s.login(startBrowser(t), 1280, 800, "#/streams")
	p.text("many")
	p.eval(`began = performance.now(), location.hash = "#/streams/many"`)
	p.until(rowCount + " > 10")
	t.Logf("the first events are there after %.0f ms", p.eval("performance.now() - began"))
	p.until(fmt.Sprintf("%s === %d", counted("received"), *manyEvents))
	t.Logf("all %d are there after %.0f ms", *manyEvents, p.eval("performance.now() - began"))
	if n := p.eval(rowCount).(float64); n > 100 {
		t.Errorf("%v rows are drawn", n)
	}
	p.whole(*manyEvents)
}

// TestMuchOutputIsDrawnSmoothly follows 5,000 lines a second, 600 of them each tenth of a second and the time that the
// shell takes for them: the page draws frames, not lines.
func TestMuchOutputIsDrawnSmoothly(t *testing.T) {
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	s.run("much", `i=0; while [ $i -lt 60 ]; do
		seq -f 'line %.0f of much' $((i * 600)) $((i * 600 + 599)); i=$((i + 1)); sleep 0.1; done`, nil)
	p.eval(`location.hash = "#/executions/much"`)
	p.until(lineCount + " > 1000")
	before := p.work()
	measured := p.eval(fmt.Sprintf(`new Promise(done => {
		const lines = () => %s, from = lines(), began = performance.now(), times = []
		let last = began
		requestAnimationFrame(function frame(now) {
			times.push(now - last)
			last = now
			if (now - began < 4000) requestAnimationFrame(frame)
			else done([times.length, (lines() - from) / (now - began) * 1000, now - began,
				times.sort((a, b) => a - b)[Math.floor(times.length * 0.95)]])
		})
	})`, lineCount)).([]any)
	frames, took := measured[0].(float64), measured[2].(float64)
	each := (p.work() - before) / frames
	t.Logf("%.0f lines and %.0f frames a second, 95 of 100 within %.1f ms; %.1f ms of work a frame",
		measured[1], frames/took*1000, measured[3], each)
	if n := p.eval(drawn).(float64); n > 400 || each > maxFrameWork {
		t.Errorf("%v elements are drawn, with %.1f ms of work a frame", n, each)
	}
	p.until(lineCount + " === 36000")
	p.until(phase + `.includes("phase-ended")`)
	p.whole(int(p.eval(counted("received")).(float64)))
	p.click("[role=tab]", "Events")
	if n := p.eval(`document.querySelectorAll(".rows .row").length`).(float64); n > 100 {
		t.Errorf("%v events are drawn", n)
	}
}

// TestFirstViewIsFast measures from the request of the page to its first list.
func TestFirstViewIsFast(t *testing.T) {
	s := startServer(t)
	fill(s)
	p := s.login(startBrowser(t), 1280, 800, "#/executions")
	p.text("running")
	p.call("Network.clearBrowserCache", nil)
	p.visit(s.url + "/?first#/executions")
	p.text("running")
	p.until(`performance.getEntriesByName("first-contentful-paint").length > 0`)
	t.Logf("first paint after %.0f ms", p.eval(`performance.getEntriesByName("first-contentful-paint")[0].startTime`))
	first := p.eval(
		`performance.getEntriesByType("resource").filter(e => e.name.includes("limit=200"))[0].responseEnd`,
	).(float64)
	t.Logf("the first list is there after %.0f ms", first)
	if first > 30_000 { // a machine that does other things too
		t.Errorf("the first list takes %.0f ms", first)
	}
}
