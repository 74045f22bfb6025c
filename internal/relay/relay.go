package relay

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/internal/problem"
	"reprise/internal/quota"
)

// Prefix is what the paths of recordings begin with: GET reads one, DELETE stops its backend.
const Prefix = "/_relay/"

// The namespaces of our streams.
const (
	namespace = "relay:"
	latest    = "relay.latest:"
)

// KeyHeader names the recording of a request, before any rule does.
const KeyHeader = "Idempotency-Key"

// DefaultCredentials are the headers that say who sends a request.
var DefaultCredentials = []string{"Authorization", "X-Api-Key", "Api-Key"}

// Options are the settings of a Relay. The zero value of each field means its default.
type Options struct {
	// Backend is where requests go: its path is put before theirs.
	Backend *url.URL
	// Keys name the recording of a request: the first one that finds a value. Default: none, but KeyHeader does.
	Keys []Rule
	// Latest is a rule that groups recordings, such as the answers of a chat. A GET of LatestPath, in which "{key}"
	// stands for the value, reads the newest recording of a group while its backend answers, and has 204 otherwise.
	Latest     Rule
	LatestPath string
	// Credentials are the headers that say who sends a request, beside DefaultCredentials, and Cookies the
	// names of the cookies. Default: all cookies.
	Credentials, Cookies []string
	// Sender, if not nil, says who sends a request, in place of its headers, and whose streams the recordings are.
	// Default: reprise.DefaultTenant, and no account.
	Sender func(*http.Request) quota.Account
	// Mount is the path that was taken off the paths of requests, and is put before the paths of recordings.
	Mount string
	// Grace is how long a backend goes on without a reader. Default: 5 minutes.
	Grace time.Duration
	// Retry lets a request under the key of a recording that was lost, or has failed, call the backend again.
	Retry bool
	// Secret is what the names of recordings are made with.
	Secret []byte
	// Transport calls the backend. Default: http.DefaultTransport.
	Transport http.RoundTripper
	// Heartbeat is the silence after which a reader of Server-Sent Events is sent a comment. Default: 15 s.
	Heartbeat time.Duration
	// Logger is given what goes wrong. Default: silent.
	Logger *slog.Logger
}

// ParseBackend parses the URL of a backend. The error wraps reprise.ErrInvalid.
func ParseBackend(text string) (*url.URL, error) {
	backend, err := url.Parse(text)
	known := err == nil && (backend.Scheme == "http" || backend.Scheme == "https")
	if !known || backend.Host == "" || backend.RawQuery != "" {
		return nil, fmt.Errorf("%w: %q is not the URL of a backend, such as http://127.0.0.1:3000",
			reprise.ErrInvalid, text)
	}
	return backend, nil
}

// Relay is a proxy in front of one backend. It is safe for concurrent use.
type Relay struct {
	log   *reprise.Log
	opts  Options
	proxy *httputil.ReverseProxy
	via   string

	life    context.Context // ended by Close
	close   context.CancelCauseFunc
	writing sync.WaitGroup

	mu      sync.Mutex
	running map[string]*recording
}

// Open returns a Relay whose recordings are streams of log. Recordings that an earlier process has not finished are
// ended as lost. The error wraps reprise.ErrInvalid for invalid options, or comes from the log.
func Open(ctx context.Context, log *reprise.Log, opts *Options) (*Relay, error) {
	l := &Relay{log: log, opts: *opts, running: map[string]*recording{}, via: "1.1 reprise-" + rand.Text()}
	l.opts.Grace = cmp.Or(l.opts.Grace, 5*time.Minute)
	l.opts.Heartbeat = cmp.Or(l.opts.Heartbeat, 15*time.Second)
	if l.opts.Logger == nil {
		l.opts.Logger = slog.New(slog.DiscardHandler)
	}
	rules := l.opts.Keys
	if l.opts.Latest != "" {
		rules = append(rules[:len(rules):len(rules)], l.opts.Latest)
	}
	for _, rule := range rules {
		if err := rule.Check(); err != nil {
			return nil, err
		}
	}
	if (l.opts.Latest == "") != (l.opts.LatestPath == "") || strings.Count(l.opts.LatestPath, "{key}") > 1 ||
		l.opts.LatestPath != "" && !strings.Contains(l.opts.LatestPath, "{key}") {
		return nil, fmt.Errorf("%w: a rule for the newest recording goes with a path that has {key} in it",
			reprise.ErrInvalid)
	}
	if l.opts.Backend == nil || l.opts.Backend.Host == "" {
		return nil, fmt.Errorf("%w: the URL of a backend is needed", reprise.ErrInvalid)
	}
	l.life, l.close = context.WithCancelCause(context.Background())
	l.proxy = &httputil.ReverseProxy{
		Rewrite: l.rewrite, Transport: l.opts.Transport, ModifyResponse: l.answered, ErrorHandler: l.failed,
		FlushInterval: -1, ErrorLog: slog.NewLogLogger(l.opts.Logger.Handler(), slog.LevelDebug),
	}
	return l, l.endLost(ctx)
}

// errStopped is why recordings end when the relay is closed.
var errStopped = errors.New("the relay was stopped")

// Close ends the calls to the backend, and their recordings as lost.
func (l *Relay) Close() {
	l.close(errStopped)
	l.writing.Wait()
}

// endLost ends the recordings without a writer.
func (l *Relay) endLost(ctx context.Context) error {
	q := reprise.ListQuery{Namespace: namespace, Limit: 1000}
	for {
		page, err := l.log.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Streams {
			info := &page.Streams[i]
			if info.End != nil {
				continue
			}
			s, err := l.log.Stream(ctx, info.Key)
			if err == nil {
				_, err = s.End(ctx, outcomeLost, ending("the relay was killed"))
			}
			if err != nil && !errors.Is(err, reprise.ErrNotFound) && !errors.Is(err, reprise.ErrEnded) {
				return err
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// rewrite makes the request to the backend.
func (l *Relay) rewrite(p *httputil.ProxyRequest) {
	p.SetURL(l.opts.Backend)
	p.SetXForwarded()
	p.Out.Header.Add("Via", l.via)
	if p.In.Method != http.MethodGet || strings.Contains(p.In.Header.Get("Accept"), "text/event-stream") {
		plain(p.Out.Header) // its answer may be one to record
	}
	if p.In.Context().Value(keyed{}) != nil {
		p.Out.Header.Del("Last-Event-ID") // which is ours
	}
	if c, _ := p.In.Context().Value(callKey{}).(*call); c != nil && p.Out.Body != nil {
		p.Out.Body = c.body
	}
}

// plain leaves no other encoding of an answer than gzip.
func plain(h http.Header) {
	if strings.Contains(h.Get("Accept-Encoding"), "gzip") {
		h.Set("Accept-Encoding", "gzip")
		return
	}
	h.Del("Accept-Encoding")
}

// keyed is the key of a context of a request that begins a recording.
type keyed struct{}

// call is a request on its way to the backend.
type call struct {
	relay     *Relay
	r         *http.Request // of the client
	principal string
	group     string          // of Latest, "" for none
	stream    *reprise.Stream // made before the call, for a request with a key
	cancel    context.CancelCauseFunc
	detach    func() bool   // stops that the client's disconnection ends the call
	rec       *recording    // once the answer is one that is recorded
	live      http.Header   // the headers of the answer that are not kept
	body      io.ReadCloser // of the request to the backend
}

type callKey struct{}

// upload is the body of a client's request while the handler runs. A backend may answer before it has read all of it,
// and httputil.ReverseProxy closes the body of its own request as soon as a recording has taken the answer: the
// connection to the backend would be cut.
type upload struct {
	io.Reader
	over atomic.Bool // set when the handler returns
}

func (u *upload) Read(p []byte) (int, error) {
	if u.over.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	return u.Reader.Read(p)
}

// Close implements io.Closer.
func (u *upload) Close() error { return nil }

// ServeHTTP answers a request.
func (l *Relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(strings.Join(r.Header.Values("Via"), ","), l.via) {
		http.Error(w, "reprise relay: the backend is this relay itself", http.StatusLoopDetected)
		return
	}
	if err := l.serve(w, r); err != nil {
		l.refuse(w, r, err)
	}
}

// refuse answers with an error.
func (l *Relay) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return
	}
	if errors.Is(err, errIncomplete) {
		http.Error(w, "reprise relay: "+err.Error(), http.StatusBadGateway)
		return
	}
	p := problem.From(err)
	if p.Status >= http.StatusInternalServerError {
		l.opts.Logger.Error("a request failed", "path", r.URL.Path, "error", err)
	}
	_ = problem.Write(w, p)
}

func (l *Relay) serve(w http.ResponseWriter, r *http.Request) error {
	if name, ok := strings.CutPrefix(r.URL.Path, Prefix); ok {
		return l.serveRecording(w, r, name)
	}
	if r.Method == http.MethodGet {
		if key, ok := l.latestKey(r.URL.Path); ok {
			return l.serveLatest(w, r, key)
		}
	}
	last := r.Header.Get("Last-Event-ID")
	if name, cursor, ok := parseID(last); ok {
		return l.resume(w, r, name, cursor)
	}
	if r.Method == http.MethodHead || r.Method == http.MethodOptions || r.Header.Get("Upgrade") != "" {
		l.proxy.ServeHTTP(w, r)
		return nil
	}
	c := &call{relay: l, r: r, principal: l.principal(r)}
	key, digest, err := c.read()
	switch {
	case err != nil:
		return err
	case key == "":
		return c.pass(w)
	}
	return c.passOnce(w, key, digest, last)
}

// maxBody bounds the body of a request from which a rule takes a value.
const maxBody = 8 << 20

// read returns the key of a request, "" for none, and a digest of the request.
func (c *call) read() (key, digest string, err error) {
	l := c.relay
	rules := append([]Rule{Rule("header:" + KeyHeader)}, l.opts.Keys...)
	named := c.r.Header.Get(KeyHeader) != ""
	var body []byte
	if named || len(l.opts.Keys) > 0 || l.opts.Latest != "" {
		if body, err = c.readBody(named); err != nil {
			return "", "", err
		}
	}
	for _, rule := range rules {
		if value := rule.value(c.r.Header, body); value != "" {
			key = string(rule) + " " + value
			break
		}
	}
	if l.opts.Latest != "" {
		if value := l.opts.Latest.value(c.r.Header, body); value != "" {
			c.group = latest + l.name("latest", c.principal, value)
		}
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s\n", c.r.Method, c.r.URL.RequestURI())
	sum.Write(body)
	return key, hex.EncodeToString(sum.Sum(nil)), nil
}

// readBody reads the body and keeps it. One that is too long has no key, and is refused if the request names one.
func (c *call) readBody(named bool) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(c.r.Body, maxBody+1))
	if err != nil {
		return nil, problem.Invalid(http.StatusBadRequest, "", "the body did not arrive whole")
	}
	if len(body) > maxBody {
		if named {
			return nil, problem.PayloadTooLarge(maxBody)
		}
		c.r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), c.r.Body), c.r.Body}
		return nil, nil
	}
	c.body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

// pass passes a request on that has no key.
func (c *call) pass(w http.ResponseWriter) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.r.Context()))
	c.cancel = cancel
	c.detach = context.AfterFunc(c.r.Context(), func() { cancel(context.Cause(c.r.Context())) })
	return c.send(ctx, w)
}

// send calls the backend. An answer that is recorded is read from its recording.
func (c *call) send(ctx context.Context, w http.ResponseWriter) error {
	if c.body == nil {
		body := &upload{Reader: c.r.Body}
		defer body.over.Store(true)
		_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/2 is, and has none
		c.body = body
	}
	c.relay.proxy.ServeHTTP(w, c.r.WithContext(context.WithValue(ctx, callKey{}, c)))
	if c.rec == nil {
		c.cancel(nil)
		return nil
	}
	return c.relay.follow(w, c.r, c.rec.stream, &from{live: c.live, rec: c.rec})
}

// meta is what a recording is made with.
type meta struct {
	Principal string `json:"principal"`
	Digest    string `json:"digest,omitempty"`
}

func (c *call) config(digest string) reprise.StreamConfig {
	text, err := json.Marshal(meta{c.principal, digest})
	if err != nil {
		panic(err) // strings
	}
	return reprise.StreamConfig{Meta: text, Labels: c.relay.labels(c.r)}
}

// passOnce passes a request on that has a key, unless that was done before.
func (c *call) passOnce(w http.ResponseWriter, key, digest, last string) error {
	l, ctx := c.relay, c.r.Context()
	name := l.stream(c.r, namespace+l.name("key", c.principal, key))
	for {
		s, created, err := l.log.Create(ctx, name, c.config(digest))
		if errors.Is(err, reprise.ErrConflict) {
			return fmt.Errorf("%w: another request has been sent under this key", reprise.ErrConflict)
		}
		if err != nil {
			return err
		}
		if created {
			return c.begin(w, s)
		}
		info, err := s.Info(ctx)
		if err == nil && info.End != nil && info.End.Outcome != outcomeCompleted && l.opts.Retry {
			err = s.Remove(ctx)
			if err == nil {
				continue
			}
		}
		if err == nil {
			err = l.follow(w, c.r, s, &from{last: last})
		}
		// It was removed, because its answer is none that is recorded.
		if !errors.Is(err, reprise.ErrNotFound) {
			return err
		}
	}
}

// begin calls the backend for a recording that was made for the answer. The call goes on without the client.
func (c *call) begin(w http.ResponseWriter, s *reprise.Stream) error {
	l := c.relay
	c.stream, c.detach = s, func() bool { return true }
	ctx, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(c.r.Context()), keyed{}, true))
	c.cancel = cancel
	defer context.AfterFunc(l.life, func() { cancel(errStopped) })()
	err := c.send(ctx, w)
	if c.rec == nil {
		if rerr := s.Remove(l.life); rerr != nil && !errors.Is(rerr, reprise.ErrNotFound) {
			l.opts.Logger.Error("a recording without an answer cannot be removed", "error", rerr)
		}
	}
	return err
}

// kindOf returns whether an answer is recorded, and whether it has lines.
func kindOf(res *http.Response) (lines, ok bool) {
	if res.StatusCode < 200 || res.StatusCode > 299 || res.Request.Method == http.MethodHead {
		return false, false
	}
	switch res.Header.Get("Content-Encoding") {
	case "", "identity", "gzip":
	default:
		return false, false
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch kind {
	case "text/event-stream":
		return false, true
	case "application/x-ndjson", "application/jsonl", "application/x-jsonlines", "application/json-lines":
		return true, true
	}
	return false, false
}

// errTaken ends the proxying of an answer that is recorded.
var errTaken = errors.New("the answer is recorded")

// answered takes an answer that is to be recorded out of the proxy.
func (l *Relay) answered(res *http.Response) error {
	c, _ := res.Request.Context().Value(callKey{}).(*call)
	lines, ok := kindOf(res)
	if c == nil || !ok {
		if encoding := res.Header.Get("Content-Encoding"); encoding != "" &&
			strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
			l.opts.Logger.Warn("an answer is not recorded because of its encoding", "encoding", encoding,
				"path", res.Request.URL.Path)
		}
		return nil
	}
	if !c.detach() { // the client has disconnected meanwhile
		return nil
	}
	if err := c.record(res, lines); err != nil {
		c.cancel(err)
		return err
	}
	return errTaken
}

// failed implements ErrorHandler of httputil.ReverseProxy.
func (l *Relay) failed(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errTaken) {
		return
	}
	if cause := context.Cause(r.Context()); cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	l.opts.Logger.Warn("the backend does not answer", "path", r.URL.Path, "error", err)
	http.Error(w, "reprise relay: the backend does not answer", http.StatusBadGateway)
}
