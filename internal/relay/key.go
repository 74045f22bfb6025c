package relay

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"reprise"
)

// Rule takes a value from a request: "header:NAME", or "json:/POINTER,/POINTER..." with JSON pointers (RFC 6901) into a
// body of JSON. A rule with several pointers needs a value for each.
type Rule string

// Rules returns texts as rules.
func Rules(texts []string) (list []Rule) {
	for _, text := range texts {
		list = append(list, Rule(text))
	}
	return list
}

// Check returns an error that wraps reprise.ErrInvalid if r is not a rule.
func (r Rule) Check() error {
	kind, of, _ := strings.Cut(string(r), ":")
	switch {
	case kind == "header" && of != "":
		return nil
	case kind == "json" && of != "":
		for pointer := range strings.SplitSeq(of, ",") {
			if !strings.HasPrefix(pointer, "/") {
				return fmt.Errorf("%w: rule %q: a JSON pointer begins with a slash", reprise.ErrInvalid, r)
			}
		}
		return nil
	}
	return fmt.Errorf("%w: rule %q: header:NAME and json:/POINTER,... are taken", reprise.ErrInvalid, r)
}

// value returns the value of a rule, "" if the request has none.
func (r Rule) value(head http.Header, body []byte) string {
	kind, of, _ := strings.Cut(string(r), ":")
	if kind == "header" {
		return head.Get(of)
	}
	var document any
	if json.Unmarshal(body, &document) != nil {
		return ""
	}
	var values []string
	for pointer := range strings.SplitSeq(of, ",") {
		value, ok := at(document, strings.Split(pointer, "/")[1:])
		if !ok {
			return ""
		}
		values = append(values, value)
	}
	if len(values) == 1 {
		return values[0]
	}
	return fmt.Sprintf("%q", values)
}

// at returns the value at a JSON pointer as text. Objects and arrays are none.
func at(document any, pointer []string) (string, bool) {
	for _, name := range pointer {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch inside := document.(type) {
		case map[string]any:
			document = inside[name]
		case []any:
			n, err := strconv.Atoi(name)
			if err != nil || n < 0 || n >= len(inside) {
				return "", false
			}
			document = inside[n]
		default:
			return "", false
		}
	}
	switch value := document.(type) {
	case string:
		return value, value != ""
	case float64, bool:
		return fmt.Sprint(value), true
	}
	return "", false
}

// name makes a name that only our secret leads to.
func (l *Relay) name(parts ...string) string {
	mac := hmac.New(sha256.New, l.opts.Secret)
	for _, part := range parts {
		fmt.Fprintf(mac, "%d %s ", len(part), part)
	}
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil)[:16]))
}

// principal names the sender of a request, whose recordings no other one reads, without giving away its credentials.
func (l *Relay) principal(r *http.Request) string {
	if l.opts.Sender != nil {
		a := l.opts.Sender(r)
		return l.name("sender", string(a.Tenant), a.Principal)
	}
	cookies := r.Header.Values("Cookie")
	if l.opts.Cookies != nil {
		cookies = nil
		for _, name := range l.opts.Cookies {
			for _, c := range r.CookiesNamed(name) {
				cookies = append(cookies, c.Name+"="+c.Value)
			}
		}
	}
	shown := []string{"principal", strings.Join(cookies, "\n")}
	for _, name := range slices.Concat(DefaultCredentials, l.opts.Credentials) {
		shown = append(shown, strings.Join(r.Header.Values(name), "\n"))
	}
	return l.name(shown...)
}

// stream returns the key of a stream of the sender of a request.
func (l *Relay) stream(r *http.Request, name string) reprise.StreamKey {
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name}
	if l.opts.Sender != nil {
		key.Tenant = l.opts.Sender(r).Tenant
	}
	return key
}

// labels returns the labels of a stream that is made for the sender of a request.
func (l *Relay) labels(r *http.Request) map[string]string {
	labels := map[string]string{}
	if l.opts.Sender != nil {
		labels[reprise.AccountLabel] = l.opts.Sender(r).Principal
	}
	return labels
}
