package console_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait of a test for something that has to happen.
const patience = 2 * time.Minute

// browser is a Chromium that is driven through the DevTools protocol over a pair of pipes.
type browser struct {
	cmd  *exec.Cmd
	to   *os.File
	done chan struct{}

	mu      sync.Mutex
	last    int
	waiting map[int]chan reply
	pages   map[string]*page // by session
}

type reply struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// shared is the browser of all tests, each of which has a profile of its own in it.
var shared struct {
	dir     string // of its files
	once    sync.Once
	browser *browser
	err     error
}

// startBrowser returns the browser, which is started by the first test that needs it. The test is skipped where there
// is none, unless CI is set.
func startBrowser(t testing.TB) *browser {
	t.Helper()
	shared.once.Do(func() { shared.browser, shared.err = launch(shared.dir) })
	if errors.Is(shared.err, exec.ErrNotFound) && os.Getenv("CI") == "" {
		t.Skip("chromium is missing: apt-get install chromium")
	}
	check(t, shared.err)
	return shared.browser
}

// launch starts a Chromium whose files are in dir. An animation that never ends would draw each of its many windows all
// the time, so it prefers reduced motion.
func launch(dir string) (*browser, error) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		return nil, err
	}
	in, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b := &browser{to: to, done: make(chan struct{}), waiting: map[int]chan reply{}, pages: map[string]*page{}}
	b.cmd = exec.Command(chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic",
		"--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-component-update",
		"--disable-sync", "--disable-extensions", "--force-prefers-reduced-motion",
		"--force-color-profile=srgb", "--enable-precise-memory-info", "--remote-debugging-pipe",
		"--user-data-dir="+filepath.Join(dir, "chromium"))
	b.cmd.ExtraFiles = []*os.File{in, out} // Chromium reads descriptor 3 and writes descriptor 4
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	go b.read(from)
	return b, errors.Join(in.Close(), out.Close())
}

// close ends the browser and all its processes.
func (b *browser) close() {
	_, _ = b.call("", "Browser.close", nil)
	ended := make(chan struct{})
	go func() {
		_ = b.cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL) // its own process group
		<-ended
	}
	_ = b.to.Close()
	<-b.done
}

// read hands on what the browser says: messages that end with a zero byte.
func (b *browser) read(from *os.File) {
	defer close(b.done)
	defer from.Close()
	messages := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := messages.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			for _, waiting := range b.waiting {
				close(waiting)
			}
			b.waiting = map[int]chan reply{}
			b.mu.Unlock()
			return
		}
		var message struct {
			ID      int             `json:"id"`
			Session string          `json:"sessionId"`
			Method  string          `json:"method"`
			Params  json.RawMessage `json:"params"`
			reply
		}
		if json.Unmarshal(text[:len(text)-1], &message) != nil {
			continue
		}
		b.mu.Lock()
		if waiting := b.waiting[message.ID]; waiting != nil {
			delete(b.waiting, message.ID)
			waiting <- message.reply
		} else if p := b.pages[message.Session]; p != nil {
			p.note(message.Method, message.Params)
		}
		b.mu.Unlock()
	}
}

// call calls a method of the DevTools protocol.
func (b *browser) call(session, method string, params any) (json.RawMessage, error) {
	b.mu.Lock()
	b.last++
	id, answer := b.last, make(chan reply, 1)
	b.waiting[id] = answer
	b.mu.Unlock()
	text, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params, "sessionId": session})
	if session == "" {
		text, err = json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	}
	if err != nil {
		return nil, err
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		return nil, err
	}
	select {
	case r, ok := <-answer:
		switch {
		case !ok:
			return nil, errors.New("the browser has ended")
		case r.Error != nil:
			return nil, fmt.Errorf("%s: %s", method, r.Error.Message)
		}
		return r.Result, nil
	case <-time.After(2 * patience):
		return nil, fmt.Errorf("%s: no answer", method)
	}
}

// page is a tab.
type page struct {
	testing.TB
	browser *browser
	session string
	profile string // the id of the profile
	target  string // the id of the tab

	// The browser's mutex guards these.
	complaints []string // errors of scripts and of the content security policy
	requests   []string // addresses
}

// open opens a tab of so many pixels, in a profile of its own that ends with the test.
func (b *browser) open(t testing.TB, width, height int) *page {
	t.Helper()
	var made struct {
		BrowserContextID string `json:"browserContextId"`
	}
	result, err := b.call("", "Target.createBrowserContext", map[string]any{})
	check(t, err)
	check(t, json.Unmarshal(result, &made))
	t.Cleanup(func() {
		_, _ = b.call("", "Target.disposeBrowserContext", map[string]any{"browserContextId": made.BrowserContextID})
	})
	return b.tab(t, made.BrowserContextID, width, height)
}

// another opens one more tab in the profile of p.
func (p *page) another(width, height int) *page {
	p.Helper()
	return p.browser.tab(p.TB, p.profile, width, height)
}

// close closes the tab.
func (p *page) close() {
	p.Helper()
	_, err := p.browser.call("", "Target.closeTarget", map[string]any{"targetId": p.target})
	check(p, err)
}

func (b *browser) tab(t testing.TB, profile string, width, height int) *page {
	t.Helper()
	var made struct {
		TargetID  string `json:"targetId"`
		SessionID string `json:"sessionId"`
	}
	step := func(method string, params map[string]any) {
		t.Helper()
		result, err := b.call("", method, params)
		check(t, err)
		check(t, json.Unmarshal(result, &made))
	}
	step("Target.createTarget", map[string]any{
		"url": "about:blank", "browserContextId": profile, "width": width, "height": height, "newWindow": true,
	})
	step("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true})
	p := &page{TB: t, browser: b, session: made.SessionID, profile: profile, target: made.TargetID}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Runtime", "Log", "Network", "Page"} {
		p.call(domain+".enable", nil)
	}
	p.call("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}) // in each of the windows
	p.size(width, height, width < 600)
	return p
}

func (p *page) size(width, height int, mobile bool) {
	p.Helper()
	p.call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile,
	})
}

// note notes what the page complains of and asks for.
func (p *page) note(method string, params json.RawMessage) {
	switch method {
	case "Runtime.exceptionThrown":
		p.complaints = append(p.complaints, string(params))
	case "Log.entryAdded":
		var entry struct {
			Entry struct{ Source, Level, Text, URL string } `json:"entry"`
		}
		// A refusal, or a server that is away, is told to the user by the page, and by the browser here.
		if json.Unmarshal(params, &entry) == nil && entry.Entry.Level == "error" && entry.Entry.Source != "network" {
			p.complaints = append(p.complaints, entry.Entry.Text)
		}
	case "Network.requestWillBeSent":
		var sent struct {
			Request struct {
				URL string `json:"url"`
			} `json:"request"`
		}
		if json.Unmarshal(params, &sent) == nil {
			p.requests = append(p.requests, sent.Request.URL)
		}
	}
}

func (p *page) call(method string, params any) json.RawMessage {
	p.Helper()
	if params == nil {
		params = map[string]any{}
	}
	result, err := p.browser.call(p.session, method, params)
	check(p, err)
	return result
}

// visit loads an address.
func (p *page) visit(url string) {
	p.Helper()
	p.call("Page.navigate", map[string]any{"url": url})
}

// reload loads the page anew, and returns once the document of before is gone.
func (p *page) reload() {
	p.Helper()
	p.eval("window.before = true")
	p.call("Page.reload", nil)
	p.until("!window.before")
}

// eval is the value of a JavaScript expression, which may be a promise.
func (p *page) eval(expression string) any {
	p.Helper()
	value, err := p.evaluate(expression)
	check(p, err)
	return value
}

// evaluate is eval for an expression that may fail, as any does in a page that is just being left.
func (p *page) evaluate(expression string) (any, error) {
	answer, err := p.browser.call(p.session, "Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true,
	})
	if err != nil {
		return nil, err
	}
	var result struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
		ExceptionDetails *struct {
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	if err := json.Unmarshal(answer, &result); err != nil {
		return nil, err
	}
	if e := result.ExceptionDetails; e != nil {
		return nil, fmt.Errorf("%s: %s", expression, e.Exception.Description)
	}
	return result.Result.Value, nil
}

// until waits until an expression is true. One that throws, as what it asks for is not there yet, is not, nor is one
// that is asked of a page that is just being left.
func (p *page) until(expression string) {
	p.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var failed error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		var value any
		value, failed = p.evaluate("(() => { try { return Boolean(" + expression + ") } catch { return false } })()")
		if value == true {
			return
		}
	}
	if failed != nil {
		p.Fatal(failed)
	}
	p.Fatalf("not so within %v: %s\nthe page says:\n%s", patience, expression, p.eval("document.body.innerText"))
}

// text waits until the page shows a text.
func (p *page) text(want string) {
	p.Helper()
	p.until(fmt.Sprintf("document.body.innerText.includes(%q)", want))
}

// click clicks what a selector finds as soon as that can be clicked; with a text, the first one that shows it.
func (p *page) click(selector, text string) {
	p.Helper()
	p.until(fmt.Sprintf(`(e => !e.disabled && (e.click(), true))(
		[...document.querySelectorAll(%q)].find(e => e.textContent.includes(%q)))`, selector, text))
}

// fill types into a field as far as the page can tell.
func (p *page) fill(selector, text string) {
	p.Helper()
	p.until(fmt.Sprintf("(e => (e.focus(), e.select(), document.activeElement === e))(document.querySelector(%q))",
		selector))
	p.call("Input.insertText", map[string]any{"text": text})
}

// press presses a key.
func (p *page) press(key string) {
	p.Helper()
	codes := map[string]int{"Enter": 13, "ArrowRight": 39, "End": 35, "Home": 36, "PageUp": 33, "Tab": 9}
	event := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	if key == "Enter" {
		event["text"] = "\r"
	}
	p.call("Input.dispatchKeyEvent", event)
	p.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": codes[key]})
}

// scheme makes the system of the user light or dark.
func (p *page) scheme(name string) {
	p.Helper()
	p.call("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": name}},
	})
}

// screenshot is a picture of what the page shows, as PNG.
func (p *page) screenshot() []byte {
	p.Helper()
	p.eval("document.fonts.ready.then(() => 0)")
	var shot struct {
		Data string `json:"data"`
	}
	check(p, json.Unmarshal(p.call("Page.captureScreenshot", map[string]any{"format": "png"}), &shot))
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	check(p, err)
	return picture
}

// clean fails the test if the page complained, or asked anybody but its server.
func (p *page) clean(origin string) {
	p.Helper()
	p.browser.mu.Lock()
	defer p.browser.mu.Unlock()
	for _, complaint := range p.complaints {
		p.Errorf("the page complains: %s", complaint)
	}
	for _, url := range p.requests {
		if !strings.HasPrefix(url, origin+"/") {
			p.Errorf("the page asked for %s", url)
		}
	}
	if len(p.requests) == 0 {
		p.Error("no request of the page was seen")
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
