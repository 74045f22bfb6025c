// Package storeurl opens the store that a URL names, for the programs of this module. Wrappers precede the URL,
// outermost first: "compress+encrypt+sqlite:events.db".
package storeurl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"reprise"
	"reprise/internal/marker"
	"reprise/store/logstore"
	"reprise/store/memstore"
	"reprise/store/natsstore"
	"reprise/store/pgstore"
	"reprise/store/redisstore"
	"reprise/store/sqlitestore"
	"reprise/store/storewrap"
)

// ErrScheme means that the scheme of a URL names no store.
var ErrScheme = errors.New("take memory:, sqlite:PATH, log:DIR, redis://, rediss://, postgres:// or nats://, " +
	"with compress+, encrypt+, retry+, cache+ or prefix(NAME)+ in front")

// Options are the settings of Open. The zero value of each field means its default.
type Options struct {
	// Keys is the path of the file with the keys of encrypt+.
	Keys string
	// MakeKeys creates the file Keys if it is missing and the store is empty.
	MakeKeys bool
	// Unchecked opens the store without checking the marker of its wrappers, to read it as it is stored.
	Unchecked bool
	// Unmarked compares the wrappers with an existing marker but writes none: data that is copied into the store may be
	// encrypted already.
	Unmarked bool
	// MaxStreams is that of logstore and memstore.
	MaxStreams int
	// Inner, if not nil, wraps the innermost Store, inside all other wrappers. If Inner fails, that Store is closed.
	Inner func(reprise.Store) (reprise.Store, error)
	// Logger receives errors of background work. Default: silent.
	Logger *slog.Logger
}

// Split splits a URL into its wrappers, outermost first, and the rest. A prefix keeps its name: "prefix(ci)".
func Split(url string) (wrappers []string, base string) {
	for {
		name, rest, ok := strings.Cut(url, "+")
		if _, _, known := parseWrapper(name); !ok || !known {
			return wrappers, url
		}
		wrappers, url = append(wrappers, name), rest
	}
}

// parseWrapper splits "prefix(ci)" into its name and argument. known is false if text is no wrapper.
func parseWrapper(text string) (name, argument string, known bool) {
	if argument, ok := strings.CutPrefix(text, "prefix("); ok {
		argument, ok = strings.CutSuffix(argument, ")")
		return "prefix", argument, ok
	}
	switch text {
	case "compress", "encrypt", "retry", "cache":
		return text, "", true
	}
	return "", "", false
}

// Part returns the prefixes in a URL, which name a part of its store, or "" for the whole store.
func Part(url string) string {
	wrappers, _ := Split(url)
	return strings.Join(
		slices.DeleteFunc(wrappers, func(w string) bool { return !strings.HasPrefix(w, "prefix(") }),
		"+",
	)
}

// Open opens the store that url names: "memory:", "sqlite:PATH", "log:DIR", or the URL of a server, whose
// parameters are those of its package. opts may be nil.
func Open(ctx context.Context, url string, opts *Options) (reprise.Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	wrappers, base := Split(url)
	store, err := open(ctx, base, &o)
	if err == nil && o.Inner != nil {
		inner := store
		if store, err = o.Inner(inner); err != nil {
			err = errors.Join(err, inner.Close())
		}
	}
	for _, name := range slices.Backward(wrappers) {
		if err != nil {
			return nil, err
		}
		inner := store
		if store, err = wrap(ctx, inner, name, &o); err != nil {
			err = errors.Join(err, inner.Close())
		}
	}
	if err == nil {
		if err = o.check(ctx, store); err != nil {
			return nil, errors.Join(fmt.Errorf("store %s: %w", Redact(url), err), store.Close())
		}
	}
	return store, err
}

// check compares the wrappers of a store with its marker.
func (o *Options) check(ctx context.Context, store reprise.Store) error {
	switch {
	case o.Unchecked:
		return nil
	case o.Unmarked:
		return marker.Compare(ctx, store)
	}
	return marker.Check(ctx, store)
}

func wrap(ctx context.Context, inner reprise.Store, wrapper string, o *Options) (reprise.Store, error) {
	switch name, argument, _ := parseWrapper(wrapper); name {
	case "compress":
		return opened(storewrap.Compress(inner, nil))
	case "retry":
		return opened(storewrap.Retry(inner, nil))
	case "cache":
		return opened(storewrap.Cache(inner, nil))
	case "prefix":
		return opened(storewrap.Prefix(inner, argument))
	}
	keys, err := loadKeys(ctx, inner, o)
	if err != nil {
		return nil, err
	}
	return opened(storewrap.Encrypt(inner, keys))
}

// ErrKeys means that the keys of a store are missing.
var ErrKeys = errors.New("the keys of the store are missing")

// loadKeys reads the keys of a store, or generates the first one for an empty store.
func loadKeys(ctx context.Context, inner reprise.Store, o *Options) (*reprise.Keyset, error) {
	keys, err := loadKeyFile(o.Keys)
	if !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}
	empty, err := marker.IsEmpty(ctx, inner)
	switch {
	case err != nil:
		return nil, err
	case !empty:
		return nil, fmt.Errorf(
			"%w: there is no file %s, and the store holds streams: put the file back from a copy; no key is made for what another one has encrypted",
			ErrKeys,
			o.Keys,
		)
	case !o.MakeKeys:
		return nil, fmt.Errorf("%w: there is no file %s", ErrKeys, o.Keys)
	}
	err = createKeyFile(o.Keys, time.Now().UTC().Format("2006-01-02"))
	if err == nil && o.Logger != nil {
		o.Logger.Warn("a key was generated for the store: keep a copy, the data cannot be read without it",
			"file", o.Keys)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return loadKeyFile(o.Keys)
}

func open(ctx context.Context, url string, o *Options) (reprise.Store, error) {
	logger := o.Logger
	scheme, rest, _ := strings.Cut(url, ":")
	switch {
	case url == "memory:":
		return memstore.New(&memstore.Options{MaxStreams: o.MaxStreams}), nil
	case scheme == "sqlite" && rest != "":
		return opened(sqlitestore.Open(ctx, rest, &sqlitestore.Options{Logger: logger}))
	case scheme == "log" && rest != "":
		return opened(logstore.Open(ctx, rest, &logstore.Options{MaxStreams: o.MaxStreams, Logger: logger}))
	case !strings.HasPrefix(rest, "//"):
		return nil, fmt.Errorf("store %q: %w", Redact(url), ErrScheme)
	case endsInPassword(url):
		return nil, fmt.Errorf("%w: URL of the store: in the password, / ? # and @ must be written as %%2F %%3F %%23 and %%40",
			reprise.ErrInvalid)
	case scheme == "redis" || scheme == "rediss":
		return opened(redisstore.Open(ctx, url, &redisstore.Options{Logger: logger}))
	case scheme == "postgres" || scheme == "postgresql":
		return opened(pgstore.Open(ctx, url, &pgstore.Options{Logger: logger}))
	case scheme == "nats" || scheme == "tls":
		return opened(natsstore.Open(ctx, url, &natsstore.Options{Logger: logger}))
	}
	return nil, fmt.Errorf("store %q: %w", Redact(url), ErrScheme)
}

// endsInPassword reports whether the host of a URL seems to end within the password, because that has a character which
// must be escaped. Then the rest of the password is in the path, the name of a parameter or the fragment, which the
// errors of a store may quote.
func endsInPassword(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return false
	}
	if u.User == nil && strings.Contains(u.EscapedPath(), "@") || strings.Contains(u.EscapedFragment(), "@") {
		return true
	}
	for parameter := range strings.SplitSeq(u.RawQuery, "&") {
		if name, _, _ := strings.Cut(parameter, "="); strings.Contains(name, "@") {
			return true
		}
	}
	return false
}

// opened keeps a nil pointer from becoming a Store.
func opened[S reprise.Store](store S, err error) (reprise.Store, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}

// Redact removes the parts of a URL that may hold a password. Paths of local stores are kept.
func Redact(url string) string {
	if scheme, _, ok := strings.Cut(url, "://"); ok && !strings.Contains(scheme, "@") {
		return scheme + "://..."
	}
	_, base := Split(url)
	scheme, _, _ := strings.Cut(base, ":")
	if slices.Contains(localSchemes, scheme) || !strings.Contains(url, "@") {
		return url
	}
	return "..." // a URL with a mistake
}

// localSchemes are the schemes whose URLs name a path, or nothing.
var localSchemes = []string{"memory", "sqlite", "log", "file"}
