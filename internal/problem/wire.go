package problem

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"reprise"
)

// ContentType is the media type of problem details (RFC 9457, section 6.1).
const ContentType = "application/problem+json"

// maxBody bounds what Parse reads of a response.
const maxBody = 64 << 10

// wire is the JSON form of a Problem.
type wire struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail,omitempty"`
	Code       Code   `json:"code"`
	Retryable  bool   `json:"retryable"`
	Field      string `json:"field,omitempty"`
	Earliest   string `json:"earliest,omitempty"`
	Tail       string `json:"tail,omitempty"`
	Fork       string `json:"fork,omitempty"`
	Offset     *int64 `json:"offset,omitempty"`
	Quota      string `json:"quota,omitempty"`
	QuotaOf    string `json:"quota_of,omitempty"`
	RetryAfter string `json:"retry_after,omitempty"`
}

// MarshalJSON writes the members of the HTTP contract; retry_after is a duration such as "5s".
func (p Problem) MarshalJSON() ([]byte, error) {
	w := wire{
		p.Type, p.Title, p.Status, p.Detail, p.Code, p.Retryable, p.Field, p.Earliest, p.Tail, p.Fork, p.Offset,
		p.Quota, p.QuotaOf, "",
	}
	if p.RetryAfter > 0 {
		w.RetryAfter = p.RetryAfter.String()
	}
	return json.Marshal(w)
}

// UnmarshalJSON is the inverse of MarshalJSON. It ignores members that it does not know.
func (p *Problem) UnmarshalJSON(b []byte) error {
	var w wire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*p = Problem{
		Type: w.Type, Title: w.Title, Status: w.Status, Detail: w.Detail, Code: w.Code, Retryable: w.Retryable,
		Field: w.Field, Earliest: w.Earliest, Tail: w.Tail, Fork: w.Fork, Offset: w.Offset,
		Quota: w.Quota, QuotaOf: w.QuotaOf,
	}
	if w.RetryAfter == "" {
		return nil
	}
	after, err := time.ParseDuration(w.RetryAfter)
	if err != nil || after < 0 {
		return fmt.Errorf("retry_after %q is no duration", w.RetryAfter)
	}
	p.RetryAfter = after
	return nil
}

// QuotaData has the members of a Problem that say which quota is used up, for errors of another form.
type QuotaData struct {
	Retryable  bool   `json:"retryable,omitempty"`
	Quota      string `json:"quota,omitempty"`
	QuotaOf    string `json:"quota_of,omitempty"`
	RetryAfter string `json:"retry_after,omitempty"`
}

// QuotaData returns what p says of a quota, zero if it is about something else.
func (p Problem) QuotaData() QuotaData {
	if p.Quota == "" {
		return QuotaData{}
	}
	return QuotaData{p.Retryable, p.Quota, p.QuotaOf, p.RetryAfter.String()}
}

// Noter is a ResponseWriter that wants to know the codes of the problems that Write answers with.
type Noter interface{ NoteProblem(Code) }

// Write answers a request with p, and tells w of it if that is a Noter. Nothing may have been written to w before.
// Where it returns an error, the connection is gone.
func Write(w http.ResponseWriter, p Problem) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	body = reprise.AppendJSONLine(nil, body)
	header := w.Header()
	header.Set("Content-Type", ContentType)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Length", strconv.Itoa(len(body)+1))
	if p.RetryAfter > 0 {
		seconds := (p.RetryAfter + time.Second - 1) / time.Second
		header.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	if challenge := p.challenge(); challenge != "" {
		header.Set("WWW-Authenticate", challenge)
	}
	if noter, ok := w.(Noter); ok {
		noter.NoteProblem(p.Code)
	}
	w.WriteHeader(p.Status)
	_, err = w.Write(append(body, '\n'))
	return err
}

// challenge is the header WWW-Authenticate. RFC 9110, section 15.5.2, wants one with a status of 401.
func (p *Problem) challenge() string {
	if p.Challenge == "" && p.Status == http.StatusUnauthorized {
		return "Bearer"
	}
	return p.Challenge
}

// MediaType returns the media type of an answer in lower case, without its parameters: something in front of the server
// may have added some that cannot be read, or the whole field once more.
func MediaType(h http.Header) string {
	kind := h.Get("Content-Type")
	if end := strings.IndexAny(kind, ";,"); end >= 0 {
		kind = kind[:end]
	}
	return strings.ToLower(strings.TrimSpace(kind))
}

// Parse makes a Problem of a response that is no success, and reads at most
// 64 KiB of its body without closing it. A response that is not ours, such as the
// error page of a proxy, becomes a Problem with an empty Code, which is retryable
// for the statuses 408, 425, 429, 500, 502, 503 and 504. The header Retry-After
// wins over the body; it may be a date too, which now is subtracted from.
func Parse(res *http.Response, now time.Time) Problem {
	p := Problem{Status: res.StatusCode, Title: http.StatusText(res.StatusCode), Retryable: transient(res.StatusCode)}
	if MediaType(res.Header) == ContentType {
		body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
		var sent Problem
		if err == nil && json.Unmarshal(body, &sent) == nil && sent.Code != "" {
			p = sent
			p.Status = res.StatusCode
		}
	}
	if after, ok := RetryAfter(res.Header, now); ok {
		p.RetryAfter = after
	}
	return p
}

// transient is true for the statuses that a proxy or a starting server answers
// for a while.
func transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// RetryAfter reads the header of that name, seconds or a date (RFC 9110, section
// 10.2.3). It is false where there is none or it cannot be read. It is never negative.
func RetryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	const longest = 24 * time.Hour // more is a mistake, and must not overflow
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 63); err == nil {
		return min(time.Duration(min(seconds, uint64(longest/time.Second)))*time.Second, longest), true
	}
	date, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return min(max(date.Sub(now), 0), longest), true
}
