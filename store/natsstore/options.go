package natsstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"reprise"
)

// Options are the settings of a Store. The zero value of each field means its default. A query parameter of the URL,
// whose name is in brackets, overrides its field.
type Options struct {
	// Name is the name of the JetStream stream with the events, and the first token of all subjects. The index is in
	// the stream Name_INDEX. Stores with different names are independent. A name has 1 to 32 letters, digits, '_' and
	// '-'. Default: REPRISE. [name]
	Name string
	// Timeout bounds each call, even if its context allows more time. Default: 10 s. [timeout, such as 5s]
	Timeout time.Duration
	// RestartKeeps states that the server preserves everything it acknowledged across a restart, because its
	// sync_interval is always. Otherwise streams continue in another epoch after each start of the server. The option
	// has no effect if several servers hold the streams. [restart=keeps, restart=loses]
	RestartKeeps bool
	// Logger logs lost connections, and server settings that reduce durability. Default: silent.
	Logger *slog.Logger

	// The following fields apply when Open creates the JetStream streams. Existing streams keep their settings.

	// Replicas is the number of servers that store each message: 1, 3 or 5. Default: 1. [replicas]
	Replicas int
	// MaxBytes bounds the size of the JetStream stream with the events. Appends beyond it get ErrUnavailable. Default:
	// the limits of the server. [max_bytes]
	MaxBytes int64
	// Memory stores everything in the memory of the servers. The data is lost when all of them stop. Default: in files.
	// [storage=memory]
	Memory bool
	// Domain is the JetStream domain. Default: the server's. [domain]
	Domain string

	// NATS holds further options of the connection, such as nats.UserCredentials. They are applied last.
	NATS []nats.Option
}

const (
	defaultName    = "REPRISE"
	defaultTimeout = 10 * time.Second
	maxNameBytes   = 32
)

// settings are Options combined with the parameters of the URL.
type settings struct {
	Options
	url string // without the query
}

// parse parses the URL. Its errors never contain the credentials.
func parse(text string, opts *Options) (*settings, error) {
	s := &settings{}
	if opts != nil {
		s.Options = *opts
	}
	base, query, _ := strings.Cut(text, "?")
	s.url = base
	for server := range strings.SplitSeq(base, ",") {
		if err := checkServer(strings.TrimSpace(server)); err != nil {
			return nil, err
		}
	}
	params, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("%w: the query of the NATS URL cannot be read", reprise.ErrInvalid)
	}
	for name, values := range params {
		if err := s.set(name, values[len(values)-1]); err != nil {
			return nil, err
		}
	}
	return s, s.complete()
}

// checkServer rejects a text that is not the URL of a server. An error of package url would quote all of it.
func checkServer(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("%w: the NATS URL cannot be read: is everything in user and password percent-encoded?",
			reprise.ErrInvalid)
	case u.Scheme != "nats" && u.Scheme != "tls":
		return fmt.Errorf("%w: the scheme of a NATS URL is nats or tls, not %q", reprise.ErrInvalid, u.Scheme)
	case u.Hostname() == "":
		return fmt.Errorf("%w: the NATS URL names no host", reprise.ErrInvalid)
	case u.Path != "" && u.Path != "/":
		return fmt.Errorf("%w: a NATS URL has no path; take ?name= to name the stream", reprise.ErrInvalid)
	}
	return nil
}

// set applies a parameter of the URL.
func (s *settings) set(name, value string) error {
	var err error
	switch name {
	case "name":
		s.Name = value
	case "timeout":
		s.Timeout, err = time.ParseDuration(value)
	case "restart":
		if s.RestartKeeps = value == "keeps"; value != "keeps" && value != "loses" {
			err = errors.New("it is keeps or loses")
		}
	case "replicas":
		s.Replicas, err = strconv.Atoi(value)
	case "max_bytes":
		s.MaxBytes, err = strconv.ParseInt(value, 10, 64)
	case "storage":
		if s.Memory = value == "memory"; value != "memory" && value != "file" {
			err = errors.New("it is file or memory")
		}
	case "domain":
		s.Domain = value
	case "creds":
		_, err = os.Stat(value)
		s.NATS = append(s.NATS, nats.UserCredentials(value))
	case "ca":
		_, err = os.Stat(value)
		s.NATS = append(s.NATS, nats.RootCAs(value))
	case "cert":
		cert, key, ok := strings.Cut(value, ",")
		if !ok {
			err = errors.New("it is the file of the certificate, a comma, and that of its key")
			break
		}
		_, err = tls.LoadX509KeyPair(cert, key)
		s.NATS = append(s.NATS, nats.ClientCert(cert, key))
	default:
		return fmt.Errorf("%w: the NATS URL has an unknown parameter %q; known are name, timeout, restart, replicas, "+
			"max_bytes, storage, domain, creds, ca and cert", reprise.ErrInvalid, name)
	}
	if err != nil {
		return fmt.Errorf("%w: parameter %s of the NATS URL: %w", reprise.ErrInvalid, name, err)
	}
	return nil
}

// complete fills in defaults and validates the other settings.
func (s *settings) complete() error {
	if s.Name == "" {
		s.Name = defaultName
	}
	if s.Timeout == 0 {
		s.Timeout = defaultTimeout
	}
	if s.Replicas == 0 {
		s.Replicas = 1
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case len(s.Name) > maxNameBytes || !isName(s.Name):
		return fmt.Errorf("%w: the name of a NATS store is 1 to %d letters, digits, '_' and '-', not %q",
			reprise.ErrInvalid, maxNameBytes, s.Name)
	case s.Timeout < 0 || s.MaxBytes < 0:
		return fmt.Errorf("%w: a negative timeout or max_bytes", reprise.ErrInvalid)
	case s.Replicas != 1 && s.Replicas != 3 && s.Replicas != 5:
		return fmt.Errorf("%w: replicas are 1, 3 or 5, not %d", reprise.ErrInvalid, s.Replicas)
	}
	return nil
}

func isName(text string) bool { return isToken(text) && !strings.ContainsAny(text, "./:") }

// streamConfigs returns the configurations of the JetStream streams to create: the one with the events and the index.
func (s *settings) streamConfigs() (events, index jetstream.StreamConfig) {
	storage := jetstream.FileStorage
	if s.Memory {
		storage = jetstream.MemoryStorage
	}
	base := jetstream.StreamConfig{
		Storage: storage, Replicas: s.Replicas, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1, MaxConsumers: -1,
		AllowDirect: true, Duplicates: time.Second,
	}
	events, index = base, base
	events.Name, index.Name = s.Name, s.Name+"_INDEX"
	events.Description, index.Description = "Reprise: events", "Reprise: index of "+s.Name
	events.Subjects = []string{s.Name + ".s.*.*", s.Name + ".p.*.*", s.Name + ".d.*.*"}
	index.Subjects = []string{s.Name + ".i.*.*.*", s.Name + ".e.*"}
	events.AllowRollup, events.AllowMsgTTL = true, true
	events.RePublish = &jetstream.RePublish{Source: s.Name + ".s.>", Destination: s.Name + ".w.>", HeadersOnly: true}
	if s.MaxBytes > 0 {
		events.MaxBytes = s.MaxBytes
	}
	return events, index
}

// unfit describes the setting of an existing JetStream stream that would lose events or break a guarantee.
func unfit(have *jetstream.StreamConfig, want *jetstream.StreamConfig) error {
	var wrong []string
	for _, c := range []struct {
		bad  bool
		what string
	}{
		{have.Retention != jetstream.LimitsPolicy, "its retention is not limits"},
		{have.Discard != jetstream.DiscardNew, "it discards old messages when it is full; set discard to new"},
		{have.MaxAge != 0, "it forgets messages by age"},
		{have.MaxMsgsPerSubject > 0, "it bounds the messages of a subject"},
		{!have.AllowDirect, "it does not allow direct reads"},
		{want.AllowRollup && !have.AllowRollup, "it does not allow rollups"},
		{want.AllowMsgTTL && !have.AllowMsgTTL, "it does not allow messages that expire"},
		{
			want.RePublish != nil &&
				(have.RePublish == nil || have.RePublish.Destination != want.RePublish.Destination),
			"it does not republish to " + want.Name + ".w.>",
		},
		{have.Sealed || have.DenyDelete || have.DenyPurge, "it is sealed, or denies deletes or purges"},
		{have.NoAck, "it does not acknowledge"},
	} {
		if c.bad {
			wrong = append(wrong, c.what)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w: the JetStream stream %s cannot be used: %s",
		reprise.ErrInvalid, have.Name, strings.Join(wrong, "; "))
}

// withTimeout bounds a call.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, errTimeout)
}
