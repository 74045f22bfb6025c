package main

import (
	"time"

	"reprise/internal/bytesize"
)

// upstreamFlags say how the upstream on the command line is used.
type upstreamFlags struct {
	Path           string            `default:"/mcp" placeholder:"PATH" help:"Path of the upstream on the command line. Default: ${default}"`
	Shared         bool              `help:"Use one connection to the upstream for all sessions, instead of one per session."`
	KeepsState     bool              `help:"Refuse a session whose upstream has ended, instead of starting another upstream for it."`
	Dir            string            `placeholder:"DIR" help:"Directory of the command. Default: the current one."`
	Env            map[string]string `env:"-" placeholder:"NAME=VALUE" mapsep:"none" help:"Variable for the command. May be repeated. In the value, {{name}}, {{tenant}}, {{claims.CLAIM}} and {{secrets.NAME}} are replaced by values of the caller."`
	PassEnv        []string          `placeholder:"NAME" sep:"none" help:"Variable of the gateway's environment that the command gets. May be repeated."`
	Header         map[string]string `placeholder:"NAME=VALUE" mapsep:"none" help:"Header of each request to the URL. May be repeated. The value may refer to the caller, as with --env."`
	CallTimeout    time.Duration     `placeholder:"DURATION" help:"How long the upstream may be silent about a request. Default: no limit."`
	StartTimeout   time.Duration     `placeholder:"DURATION" help:"How long a new connection may take to be initialized. Default: 30s."`
	TaskAfter      time.Duration     `placeholder:"DURATION" help:"How long a tool may take before its call becomes a task, for clients of version 2026-07-28 with tasks. Default: 5s."`
	Tools          []string          `placeholder:"PATTERN" help:"Tools that are offered, as UPSTREAM/TOOL with * and ?, separated by commas; with ! in front, tools that are not. Other tools are in no list, and their calls are refused. With --config it is for all upstreams. Default: all tools."`
	MaxToolsBytes  bytesize.Size     `placeholder:"SIZE" help:"Size of the list of tools, as JSON, above which the lists of upstreams that do not fit are left out. The tools search_tools and call_tool find and call theirs. Default: no limit."`
	MaxConnections int               `placeholder:"N" help:"Maximum number of connections to the upstream. Default: 100."`
	MaxCalls       int               `placeholder:"N" help:"Maximum number of unanswered requests of one connection. Default: 1000."`
}

// keptFlags say what the gateway keeps of sessions and answers.
type keptFlags struct {
	storeKeys     `embed:""`
	SessionIdle   time.Duration `placeholder:"DURATION" help:"How long an unused session is kept. Default: 1h."`
	Quick         time.Duration `placeholder:"DURATION" help:"An answer within this time is sent as JSON and not kept; a later one becomes a stream. With a negative time each answer is a stream. Default: 50ms."`
	MaxBody       bytesize.Size `placeholder:"SIZE" help:"Largest message of a client. Default: 4MiB."`
	RetainAge     time.Duration `placeholder:"DURATION" help:"How long the answer to a call is kept. Default: 1h."`
	MaxStreams    int           `placeholder:"N" help:"Maximum number of streams that log: and memory: keep, as for serve."`
	MaxTotalBytes bytesize.Size `placeholder:"SIZE" help:"Maximum number of bytes that all streams keep. Default: 16GiB."`
}

// callerFlags say who may use the gateway.
type callerFlags struct {
	Auth        string   `enum:"token,none" default:"token" placeholder:"KIND" help:"Who may use the gateway: token (anyone with the token, or an API key with a scope), or none (everybody; only on loopback). Default: ${default}."`
	AllowOrigin []string `placeholder:"ORIGIN" help:"Origin whose pages may use the gateway, for example https://example.org. May be repeated."`
	AllowHost   []string `placeholder:"NAME" help:"Host name by which the gateway may be called; others are then refused. May be repeated."`
	issuerFlags `embed:""`
	Audit       bool `help:"Record who calls what in the stream audit of the tenant reprise.audit; \"reprise audit\" reads it."`
}
