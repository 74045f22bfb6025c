package main

import (
	"log/slog"
	"strings"
	"time"

	"reprise/internal/bytesize"
	"reprise/internal/httpserver"
	"reprise/internal/relay"
)

// storageFlags say what is kept, how long, and with which keys.
type storageFlags struct {
	storeKeys      `embed:""`
	Archive        string        `placeholder:"URL" help:"Where streams are archived before they are swept: file:DIR or s3://BUCKET/PREFIX, from which they can still be read, or kafka://HOST:PORT/TOPIC. Default: nowhere."`
	RetainEvents   int64         `placeholder:"N" help:"Maximum number of events that a stream keeps. Default: 1000000."`
	RetainBytes    bytesize.Size `placeholder:"SIZE" help:"Maximum number of bytes that a stream keeps; an event counts about 64 bytes besides its data. Default: 64MiB."`
	RetainAge      time.Duration `placeholder:"DURATION" help:"How long a stream is kept after its end. Default: 24h."`
	Remember       time.Duration `placeholder:"DURATION" help:"How long the id of a command that has ended is remembered, also after its output has expired: the same start is answered with the recorded outcome and does not run again. Default: 720h (30 days); negative: while the output is kept."`
	RememberNames  int64         `placeholder:"N" help:"Number of ids that are remembered for each tenant; the oldest are forgotten first. Default: 1000000."`
	MaxIdle        time.Duration `placeholder:"DURATION" help:"How long a stream may be open without new events before it is ended, unless it says itself. Executions are not affected. Default: for ever."`
	SweepEvery     time.Duration `placeholder:"DURATION" help:"Time between sweeps for expired streams. Default: 5m."`
	MaxTotalBytes  bytesize.Size `placeholder:"SIZE" help:"Maximum number of bytes that all streams keep. At the limit the oldest ended streams are removed; if that is not enough, new events are refused and commands wait. Default: 16GiB."`
	MaxStreams     int           `placeholder:"N" help:"Maximum number of streams that log: and memory: keep, with those that have expired and are remembered. Each takes some 300 bytes of memory, and twice that until it is collected. Default: 1048576, 2097152 for memory:."`
	MaxTenantBytes bytesize.Size `placeholder:"SIZE" help:"Maximum number of bytes that the streams of one tenant keep. Default: no limit per tenant."`
}

// replicaFlags say what the servers of one store share.
type replicaFlags struct {
	Secrets string `placeholder:"DIR" help:"Directory of the token and of the keys that sign cursors. The replicas of a store need the same. Default: the data directory."`
	Replica string `placeholder:"NAME" help:"Prefix of this server's name among the replicas of its store. Default: the name of the machine."`
}

// accessFlags say who may use the server, and how much.
type accessFlags struct {
	Auth        string   `enum:"token,none" default:"token" placeholder:"KIND" help:"Who may use the server: token (anyone with the token), or none (everybody; only on loopback). Default: ${default}."`
	AllowOrigin []string `placeholder:"ORIGIN" help:"Origin whose pages may use the server, for example https://example.org. May be repeated."`
	AllowHost   []string `placeholder:"NAME" help:"Host name by which the server may be called, in addition to loopback and its address. May be repeated."`
	issuerFlags `embed:""`
	Audit       bool `help:"Record who does what in the stream audit of the tenant reprise.audit; \"reprise audit\" reads it."`
}

// readerFlags say how readers are served.
type readerFlags struct {
	MaxReaders int           `placeholder:"N" help:"Maximum number of readers of one stream. Default: 10000."`
	Heartbeat  time.Duration `default:"15s" placeholder:"DURATION" help:"Silence after which a reader is sent a heartbeat, so that proxies do not cut the connection. Default: ${default}."`
	Compress   bool          `default:"true" negatable:"" help:"Compress events (gzip, zstd) for clients that ask for it. Default: on."`
	CloseEvent bool          `help:"End each event stream with an event of type close when its stream has ended or was removed."`
	Park       bool          `default:"${parking}" negatable:"" help:"Park readers that wait, so that they need less memory (HTTP/1.1 without TLS). Default: on, on Linux."`
}

// commandFlags say how commands run, and how many.
type commandFlags struct {
	isolationFlags       `embed:""`
	PassEnv              []string `placeholder:"NAME" help:"Variable of the server's environment that every command gets. May be repeated."`
	filesFlags           `embed:""`
	Face                 []string      `group:"Other systems:" placeholder:"NAME[=/PATH]" help:"Serve clients of another system, below its path or another one: durable (Durable Streams, /v1/stream), e2b (the SDKs of E2B, /e2b) and execd (the SDKs of OpenSandbox, /execd). May be repeated. Default: none."`
	MaxRunning           int           `placeholder:"N" help:"Maximum number of running executions; others wait. Default: 64."`
	MaxRunningPerSession int           `placeholder:"N" help:"Maximum number of running executions of one session. Default: no limit per session."`
	MaxQueued            int           `placeholder:"N" help:"Maximum number of waiting executions. Default: 1000."`
	MaxTimeout           time.Duration `placeholder:"DURATION" help:"Timeout of executions that ask for none or a longer one. Default: none."`
	MaxInterpreters      int           `placeholder:"N" help:"Maximum number of running interpreters; they count as executions too. Default: 32."`
	InterpreterIdle      time.Duration `placeholder:"DURATION" help:"End interpreters after this time without code. Default: 1h."`
	SpoolBytes           bytesize.Size `placeholder:"SIZE" help:"Output of one command that is kept while no server runs; when it is full, the command waits. Default: 256MiB."`
	DrainFor             time.Duration `name:"drain" placeholder:"DURATION" help:"At INT or TERM, take no new commands and wait for those that run, this long at most; then stop. A second signal stops at once. See also \"reprise drain\". Default: do not wait."`
	StopExecutions       bool          `help:"End running commands at INT or TERM. Without it they go on, and the next server takes them over."`
}

// logFlags say what is logged on stderr.
type logFlags struct {
	LogFormat string              `enum:"text,json" default:"text" placeholder:"FORMAT" help:"Form of the log on stderr: text or json. Default: ${default}."`
	LogLevel  slog.Level          `default:"info" placeholder:"LEVEL" help:"debug, info, warn or error. Default: ${default}."`
	Requests  httpserver.Requests `name:"log-requests" enum:"all,changes,errors" default:"changes" placeholder:"WHICH" help:"Requests that are logged, a line each: all; changes (those that change something or are refused); or errors (those that are refused or fail). Default: ${default}."`
}

// relayFlags name backends whose answers are recorded.
type relayFlags struct {
	Relay    []string `sep:"none" placeholder:"/PATH=URL" help:"Pass requests below a path on to a backend, and record its streaming answers, as \"reprise relay\" does, for senders with the scope run. May be repeated. Default: none."`
	RelayKey []string `sep:"none" placeholder:"RULE" help:"Where these requests have a key, as --key of \"reprise relay\". May be repeated."`
}

// relays are the settings of the relays.
func (c *relayFlags) relays() (list []relay.Options, err error) {
	for _, text := range c.Relay {
		mount, address, _ := strings.Cut(text, "=")
		backend, err := relay.ParseBackend(address)
		if err != nil {
			return nil, usage("--relay: %w", err)
		}
		list = append(list, relay.Options{Mount: mount, Backend: backend, Keys: relay.Rules(c.RelayKey)})
	}
	return list, nil
}

// faces returns the prefixes of faces by their names, "" for the default.
func (c *commandFlags) faces() (map[string]string, error) {
	faces := map[string]string{}
	for _, text := range c.Face {
		name, prefix, _ := strings.Cut(text, "=")
		if _, twice := faces[name]; twice {
			return nil, usage("--face %s is given twice", name)
		}
		faces[name] = prefix
	}
	return faces, nil
}
