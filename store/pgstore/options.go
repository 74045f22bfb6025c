package pgstore

import (
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"reprise"
)

// Options are the settings of Open. The zero value of each field means its default. A parameter of the URL overrides
// its field.
type Options struct {
	// Schema is the schema of the database that holds the tables, so that several stores can share a database. Open
	// creates it if it does not exist. Default: "reprise". In the URL: schema.
	Schema string
	// Timeout bounds each operation. Default: 10 s. In the URL: timeout, for example "5s".
	Timeout time.Duration
	// Connections is the maximum number of connections, not counting the one that listens. Default: 8. In the URL:
	// connections.
	Connections int
	// Commits is the number of commits that a Log has under way at a time, at most Connections. With several commits a
	// slow one delays fewer streams. They lower the throughput, because each commit then serves fewer streams. Default:
	// 1. In the URL: commits.
	Commits int
	// Commit is the synchronous_commit of appends: "on", "local", "remote_write", "remote_apply" or "off". Default: the
	// server's setting. In the URL: commit.
	Commit string
	// FailoverKeeps states that standbys are synchronous, so that a promoted one has everything that was acknowledged.
	// Streams then continue in the same epoch. By default a promoted standby may lack events, and streams continue
	// under another epoch. In the URL: failover=keeps.
	FailoverKeeps bool
	// Poll is the interval at which watched streams are polled, in addition to notifications. Default: 1 s, or 100 ms
	// if no notifications arrive. In the URL: poll.
	Poll time.Duration
	// NoNotify disables sending and receiving notifications: watched streams are polled only. In the URL: notify=off.
	NoNotify bool
	// Listen is a URL of the same database for the listening connection. It is needed if the store's own URL leads
	// through a pooler that gives each transaction another connection. Default: the store's URL. In the URL: listen.
	Listen string
	// PartBytes is the size at which a partition of batches is full and the next one is added. Default: 64 MiB, or an
	// eighth of the size of all partitions if that is more. In the URL: part_bytes.
	PartBytes int64
	// TidyEvery is the interval at which the partitions are checked. Default: 1 min; negative: never. In the URL: tidy.
	TidyEvery time.Duration
	// Logger logs the loss and the return of the server. Default: silent.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Schema == "" {
		d.Schema = "reprise"
	}
	if d.Timeout == 0 {
		d.Timeout = 10 * time.Second
	}
	if d.Connections == 0 {
		d.Connections = 8
	}
	if d.Commits == 0 {
		d.Commits = 1
	}
	if d.PartBytes == 0 {
		d.PartBytes = 64 << 20
	}
	if d.TidyEvery == 0 {
		d.TidyEvery = time.Minute
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// driverParameters are the parameters of the URL that the driver understands; see
// https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS.
const driverParameters = " host port user password passfile dbname database connect_timeout sslmode sslkey sslcert sslcertmode sslrootcert " +
	"sslnegotiation sslpassword sslsni target_session_attrs service servicefile application_name options " +
	"channel_binding require_auth min_protocol_version max_protocol_version "

var schemaName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)
})

// parse reads the store's parameters from the URL and passes the others to the driver. Errors never quote the URL,
// which may contain a password.
func parse(text string, opts *Options) (Options, *pgxpool.Config, error) {
	o := opts.withDefaults()
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return o, nil, fmt.Errorf("%w: not of the form postgres://user:password@host:port/database", reprise.ErrInvalid)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return o, nil, fmt.Errorf("%w: the parameters of the URL are malformed", reprise.ErrInvalid)
	}
	for name, values := range query {
		if len(values) != 1 {
			return o, nil, fmt.Errorf("%w: %d times the parameter %q", reprise.ErrInvalid, len(values), name)
		}
		own, err := o.set(name, values[0])
		switch {
		case err != nil:
			return o, nil, fmt.Errorf("%w: the parameter %s: %w", reprise.ErrInvalid, name, err)
		case own:
			query.Del(name)
		case !strings.Contains(driverParameters, " "+name+" "):
			return o, nil, fmt.Errorf("%w: no parameter is called %q", reprise.ErrInvalid, name)
		}
	}
	if err := o.check(); err != nil {
		return o, nil, err
	}
	u.RawQuery = query.Encode()
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return o, nil, fmt.Errorf("%w: %w", reprise.ErrInvalid, err)
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // see send
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "reprise"
	}
	config.PingTimeout = min(o.Timeout/2, 2*time.Second) // for a connection that was idle, before it is used
	config.MaxConns = int32(o.Connections)
	config.ConnConfig.ConnectTimeout = min(config.ConnConfig.ConnectTimeout, o.Timeout)
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = o.Timeout
	}
	return o, config, nil
}

// set sets the option with the given name; own is false if there is no such option.
func (o *Options) set(name, value string) (own bool, err error) {
	switch name {
	case "schema":
		o.Schema = value
	case "timeout":
		o.Timeout, err = time.ParseDuration(value)
	case "connections":
		o.Connections, err = strconv.Atoi(value)
	case "commits":
		o.Commits, err = strconv.Atoi(value)
	case "commit":
		o.Commit = value
	case "failover":
		o.FailoverKeeps = value == "keeps"
		if value != "keeps" && value != "loses" {
			err = fmt.Errorf("%q is neither keeps nor loses", value)
		}
	case "poll":
		o.Poll, err = time.ParseDuration(value)
	case "notify":
		o.NoNotify = value == "off"
		if value != "on" && value != "off" {
			err = fmt.Errorf("%q is neither on nor off", value)
		}
	case "listen":
		o.Listen = value
	case "part_bytes":
		o.PartBytes, err = strconv.ParseInt(value, 10, 64)
	case "tidy":
		o.TidyEvery, err = time.ParseDuration(value)
	default:
		return false, nil
	}
	return true, err
}

func (o *Options) check() error {
	switch {
	case !schemaName().MatchString(o.Schema):
		return fmt.Errorf("%w: a schema's name is 1 to 40 letters, digits, '_' and '-'", reprise.ErrInvalid)
	case o.Timeout < time.Millisecond:
		return fmt.Errorf("%w: a timeout of %v", reprise.ErrInvalid, o.Timeout)
	case o.Connections < 1 || o.Connections > 1000:
		return fmt.Errorf("%w: %d connections, 1 to 1000 are possible", reprise.ErrInvalid, o.Connections)
	case o.Commits < 1 || o.Commits > o.Connections:
		return fmt.Errorf("%w: %d commits at a time, 1 to the %d connections are possible",
			reprise.ErrInvalid, o.Commits, o.Connections)
	case o.Poll < 0 || o.Poll > 0 && o.Poll < time.Millisecond:
		return fmt.Errorf("%w: polling every %v", reprise.ErrInvalid, o.Poll)
	case o.PartBytes < 1<<16:
		return fmt.Errorf("%w: partitions of %d bytes, at least %d are possible",
			reprise.ErrInvalid, o.PartBytes, 1<<16)
	}
	switch o.Commit {
	case "", "on", "local", "remote_write", "remote_apply", "off":
		return nil
	}
	return fmt.Errorf("%w: synchronous_commit %q", reprise.ErrInvalid, o.Commit)
}
