package natsstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"reprise"
)

// subjects returns the subjects of a Store, all of which begin with its name.
//
//	NAME.s.<tenant>.<name>              the batches and other changes of a stream, in order
//	NAME.p.<tenant>.<name>              parts of batches that are too large for a message
//	NAME.d.<tenant>.<name>              the data of an end, if it is large
//	NAME.d.=.boot                       the starts of the server; see boot
//	NAME.w.<tenant>.<name>              headers of the first, for watchers
//	NAME.i.<tenant>.<namespace>.<name>  the index: the configuration of a stream
//	NAME.e.<minute>                     the streams that expire in that minute
//
// The first four are in the JetStream stream NAME, the last two in NAME_INDEX.
type subjects struct{ name string }

// token encodes text as one token of a subject. Tenants and names contain no comma.
func token(text string) string { return strings.ReplaceAll(text, ".", ",") }

func untoken(text string) string { return strings.ReplaceAll(text, ",", ".") }

func (s subjects) of(kind string, key reprise.StreamKey) string {
	return s.name + "." + kind + "." + token(string(key.Tenant)) + "." + token(key.Name)
}

func (s subjects) stream(key reprise.StreamKey) string { return s.of("s", key) }
func (s subjects) parts(key reprise.StreamKey) string  { return s.of("p", key) }
func (s subjects) data(key reprise.StreamKey) string   { return s.of("d", key) }
func (s subjects) watch(key reprise.StreamKey) string  { return s.of("w", key) }

// index returns the subject of the record of a stream. An equals sign precedes the namespace, which may be "".
func (s subjects) index(key reprise.StreamKey) string {
	return s.name + ".i." + token(string(key.Tenant)) + ".=" + token(key.Namespace()) + "." + token(key.Name)
}

// scope returns the subject of all records that q selects; ok is false if there can be none.
func (s subjects) scope(q *reprise.ListQuery) (subject string, ok bool) {
	tenant, namespace := "*", "*"
	if q.Tenant != "" {
		tenant = token(string(q.Tenant))
	}
	if !q.AllNamespaces {
		namespace = "=" + token(q.Namespace)
	}
	if !isToken(string(q.Tenant)) || !isToken(q.Namespace) {
		return "", false
	}
	return s.name + ".i." + tenant + "." + namespace + ".*", true
}

// isToken reports whether text can be a tenant or name, or a part of one.
func isToken(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("._-/:", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// keyOf is the inverse of index, and of the other functions.
func (s subjects) keyOf(subject string) (reprise.StreamKey, error) {
	tokens := strings.Split(strings.TrimPrefix(subject, s.name+"."), ".")
	if len(tokens) < 3 {
		return reprise.StreamKey{}, fmt.Errorf("%w: subject %q", ErrDamaged, subject)
	}
	return reprise.StreamKey{Tenant: reprise.Tenant(untoken(tokens[1])), Name: untoken(tokens[len(tokens)-1])}, nil
}

// minute returns the subject of the streams that expire at t.
func (s subjects) minute(t time.Time) string {
	return s.name + ".e." + strconv.FormatInt(minuteOf(t), 10)
}

func (s subjects) minutes() string { return s.name + ".e.*" }

// minuteOf returns the number of the minute of t. Times before 1970 count as 1970.
func minuteOf(t time.Time) int64 { return max(0, t.Unix()/60) }

// minuteIn is the inverse of minute.
func (s subjects) minuteIn(subject string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(subject, s.name+".e."), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: subject %q", ErrDamaged, subject)
	}
	return n, nil
}
