package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"reprise"
	"reprise/internal/datadir"
	"reprise/internal/execution"
	"reprise/internal/httpserver"
	"reprise/internal/isolation"
	"reprise/internal/node"
	"reprise/internal/storeurl"
	"reprise/mcp/mcphttp"
)

// connectionFlags bound the connections of clients.
type connectionFlags struct {
	MaxClientConnections     int           `placeholder:"N" help:"Maximum number of client connections. At the limit the oldest unauthenticated connection is closed. Default: derived from the limit on open files."`
	MaxConnectionsPerAddress int           `placeholder:"N" help:"Maximum number of unauthenticated connections of one remote address; the oldest is closed. Behind a proxy all clients have its address, unless --trusted-proxies names it. Default: half of all."`
	MaxConnectionAge         time.Duration `placeholder:"DURATION" help:"Maximum age of a connection, for proxies that cut old ones: readers are asked to reconnect, and resume. Default: no limit."`
}

func (c *connectionFlags) options(logger *slog.Logger) *httpserver.Options {
	return &httpserver.Options{
		MaxConnections: c.MaxClientConnections, MaxPerAddress: c.MaxConnectionsPerAddress,
		MaxAge: c.MaxConnectionAge, Logger: logger,
	}
}

// dutyFlags are the flags of what one replica does for all.
type dutyFlags struct {
	WebhookAllow  []string      `placeholder:"NETWORK" help:"Network to which webhooks may be sent, in addition to public addresses, for example 10.0.0.0/8; http:// is allowed only for these. May be repeated."`
	WebhookGiveUp time.Duration `placeholder:"DURATION" help:"How long the receiver of a webhook may fail before the webhook is disabled. Default: 72h."`
}

// allowed are the networks of --webhook-allow.
func (c *dutyFlags) allowed() ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range c.WebhookAllow {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			addr, aerr := netip.ParseAddr(text)
			if aerr != nil {
				return nil, usage("--webhook-allow %s: it is neither an address nor a network such as 10.0.0.0/8", text)
			}
			p = netip.PrefixFrom(addr, addr.BitLen())
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

// mcpFlags say how clients of the Model Context Protocol are served.
type mcpFlags struct {
	MCPVersions []string      `name:"mcp-versions" placeholder:"VERSION" help:"Versions of the Model Context Protocol that are served over HTTP, separated by commas; for example 2025-11-25 alone, whose clients resume a call that was cut off. Default: all (2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26)."`
	ResponseAge time.Duration `name:"mcp-response-age" placeholder:"DURATION" help:"Age at which the response to a call is closed, on version 2025-11-25: the client comes back for the rest. Less than the age at which a proxy cuts connections. Default: 45s, for clients that have come back before; negative: no limit."`
}

// versions are the served versions, the newest first, nil for all.
func (c *mcpFlags) versions() ([]string, error) {
	for _, v := range c.MCPVersions {
		if !slices.Contains(mcphttp.Versions, v) {
			return nil, usage("--mcp-versions %s: %s are served", v, strings.Join(mcphttp.Versions, ", "))
		}
	}
	list := slices.Sorted(slices.Values(c.MCPVersions))
	slices.Reverse(list)
	return slices.Compact(list), nil
}

// telemetryFlags name the collectors of traces and metrics.
type telemetryFlags struct {
	OTLPEndpoint string `name:"otlp-endpoint" placeholder:"URL" help:"OpenTelemetry collector for traces and metrics, over OTLP on HTTP, for example http://127.0.0.1:4318. Default: OTEL_EXPORTER_OTLP_ENDPOINT, or none."`
}

// settings are the options of the server that the flags describe.
func (c *serveCmd) settings(ctx context.Context, logger *slog.Logger) (*node.Options, error) {
	c.Store = c.Store.in(c.Data)
	if err := checkShared(&c.replicaFlags, c.Store, c.Data, c.Auth == "token"); err != nil {
		return nil, err
	}
	o := &node.Options{
		Data: c.Data, Secrets: c.secrets(), Store: c.Store.url, StoreKeys: c.file(c.secrets()),
		MaxStreams: c.MaxStreams,
		Archive:    c.archived(ctx, logger), Replica: c.replicaName(),
		Log: reprise.Options{
			Retention: c.retention(), MaxIdle: c.MaxIdle,
			MaxTenantBytes: int64(c.MaxTenantBytes), MaxTotalBytes: int64(c.MaxTotalBytes),
			MaxReaders: c.MaxReaders, SweepEvery: c.SweepEvery,
		},
		Listen: c.Listen, Passed: c.passed, TakeOver: c.takesOver(), CheckAddress: c.checkAddress, Park: c.Park,
		Listening: printListening, Open: c.Auth == "none", PublicURL: strings.TrimSuffix(c.PublicURL, "/"),
		AllowHosts: c.AllowHost, AllowOrigins: c.AllowOrigin, Audit: c.Audit,
		Heartbeat: c.Heartbeat, NoCompression: !c.Compress, CloseEvent: c.CloseEvent, WebhookGiveUp: c.WebhookGiveUp,
		ResponseAge: c.ResponseAge, CallGrace: c.CallGrace, DrainFor: c.DrainFor,
		OTLPEndpoint: c.OTLPEndpoint, Version: buildVersion(), Logger: logger, LogRequests: c.Requests,
	}
	secrets := c.secretPaths()
	o.Isolation = func() (isolation.Config, error) { return c.isolate(logger, c.Data, secrets...) }
	o.Files = func() (map[string]string, error) { return c.directories(append(secrets, c.Hide...)...) }
	var err error
	if o.Faces, err = c.faces(); err != nil {
		return nil, err
	}
	if o.Relays, err = c.relays(); err != nil {
		return nil, err
	}
	if o.Executions, err = c.executions(); err != nil {
		return nil, err
	}
	if o.Quotas, err = c.quotas(nil); err != nil {
		return nil, err
	}
	if o.Issuers, err = c.issuers(); err != nil {
		return nil, err
	}
	if o.WebhookAllow, err = c.allowed(); err != nil {
		return nil, err
	}
	if o.MCPVersions, err = c.versions(); err != nil {
		return nil, err
	}
	if o.TLS, err = c.tlsConfig(logger); err != nil {
		return nil, err
	}
	o.HTTP, err = c.apply(c.options(logger))
	return o, err
}

// executions are the limits of commands.
func (c *serveCmd) executions() (o execution.Options, err error) {
	o = execution.Options{
		SpoolBytes: int64(c.SpoolBytes), MaxRunning: c.MaxRunning, MaxRunningPerSession: c.MaxRunningPerSession,
		MaxQueued: c.MaxQueued, MaxTimeout: c.MaxTimeout, PassEnv: c.PassEnv,
		Remember: c.Remember, RememberNames: c.RememberNames,
		MaxInterpreters: c.MaxInterpreters, InterpreterIdle: c.InterpreterIdle,
	}
	o.Caps, o.TenantCaps, err = parseCaps(c.LimitCommand)
	return o, err
}

// secretPaths are the files and directories that hold what no command may read.
func (c *serveCmd) secretPaths() []string {
	data := absolute(c.Data)
	paths := []string{data, c.secrets(), c.file(c.secrets())}
	// Files of settings may hold the URL of the store, and whoever can write to one decides who may do what.
	for _, file := range []string{c.TLSKey, c.Config, c.OIDCConfig, c.TLSClientCA} {
		if file != "" {
			paths = append(paths, absolute(file))
		}
	}
	if c.Store.file != "" {
		paths = append(paths, c.Store.file)
	}
	if dir, ok := archiveDir(c.Archive); ok {
		paths = append(paths, dir)
	}
	return append(paths, storeurl.Paths(data, c.Store.url)...)
}

// settings are the options of the gateway that the flags describe, in front of the upstreams at routes.
func (c *gatewayCmd) settings(logger *slog.Logger) (*node.Options, error) {
	c.Store = c.Store.in(c.Data)
	if err := checkShared(&c.replicaFlags, c.Store, c.Data, c.Auth == "token"); err != nil {
		return nil, err
	}
	secrets := c.replicaFlags.secretsDir(c.Data)
	o := &node.Options{
		Data: c.Data, Secrets: secrets, Store: c.Store.url, StoreKeys: c.file(secrets), Replica: c.replicaName(),
		MaxStreams: c.MaxStreams, Log: reprise.Options{MaxTotalBytes: int64(c.MaxTotalBytes)},
		Listen: c.Listen, Listening: printListening, Open: c.Auth == "none",
		PublicURL:  strings.TrimSuffix(c.PublicURL, "/"),
		AllowHosts: c.AllowHost, AllowOrigins: c.AllowOrigin, Audit: c.Audit, Version: buildVersion(), Logger: logger,
		LogRequests: c.Requests,
		Upstreams: node.Upstreams{
			TaskAfter: c.TaskAfter, RetainAge: c.RetainAge, SessionIdle: c.SessionIdle, Quick: c.Quick,
			MaxBody: int64(c.MaxBody),
		},
		ResponseAge: c.ResponseAge,
	}
	var err error
	if o.MCPVersions, err = c.versions(); err != nil {
		return nil, err
	}
	if o.Upstreams.Routes, err = c.routes(); err != nil {
		return nil, err
	}
	quotas := quotaFlags(c.gatewayQuotaFlags)
	if o.Quotas, err = quotas.quotas(node.GatewayQuotas); err != nil {
		return nil, err
	}
	if o.Issuers, err = c.issuers(); err != nil {
		return nil, err
	}
	if o.TLS, err = c.tlsConfig(logger); err != nil {
		return nil, err
	}
	o.HTTP, err = c.apply(c.options(logger))
	return o, err
}

// settings are the options of a server for the windows of one data directory.
func (c *mcpCmd) settings(logger *slog.Logger) (*node.Options, error) {
	c.Store = c.Store.in(c.Data)
	replicas := replicaFlags{Secrets: c.Secrets}
	if err := checkShared(&replicas, c.Store, c.Data, false); err != nil {
		return nil, err
	}
	secrets := replicas.secretsDir(c.Data)
	o := &node.Options{
		Data: c.Data, Secrets: secrets, Store: c.Store.url, StoreKeys: c.file(secrets), Replica: replicas.replicaName(),
		Log:       reprise.Options{Retention: reprise.Retention{MaxAge: c.RetainAge}},
		Open:      true, // all who get here own the directory
		Directory: here(), MaxBytes: c.MaxBytes, Version: buildVersion(), Logger: logger,
		Executions: execution.Options{MaxRunning: c.MaxRunning, MaxTimeout: c.MaxTimeout, PassEnv: c.PassEnv},
	}
	data := absolute(c.Data)
	hidden := append([]string{data, secrets, o.StoreKeys}, storeurl.Paths(data, c.Store.url)...)
	if c.Store.file != "" {
		hidden = append(hidden, c.Store.file)
	}
	o.Isolation = func() (isolation.Config, error) { return c.isolate(logger, c.Data, hidden...) }
	var err error
	if o.Executions.Caps, o.Executions.TenantCaps, err = parseCaps(c.LimitCommand); err != nil {
		return nil, err
	}
	o.Quotas, err = new(quotaFlags).quotas(nil)
	return o, err
}

// printListening prints the line that programs wait for.
func printListening(url string) { fmt.Fprintln(stdout, "listening on", url) }

// absolute returns path as an absolute one, or as it is if there is no working directory.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// secrets is the directory of the token and the keys.
func (c *serveCmd) secrets() string { return c.replicaFlags.secretsDir(c.Data) }

// secretsDir is the directory of the token and the keys of a server with a data directory.
func (f *replicaFlags) secretsDir(data string) string {
	if f.Secrets != "" {
		data = f.Secrets
	}
	return absolute(data)
}

// checkShared refuses to generate secrets for one replica if a directory of shared ones is named: all other replicas
// would refuse its clients.
func checkShared(f *replicaFlags, store storeURL, data string, token bool) error {
	if f.Secrets == "" || !storeurl.IsRemote(store.url) {
		return nil
	}
	for _, name := range []string{datadir.KeysFile, datadir.TokenFile} {
		if name == datadir.TokenFile && !token {
			continue
		}
		if _, err := os.Stat(filepath.Join(f.secretsDir(data), name)); err != nil {
			return usage("--secrets: %w; make them once with \"%s secrets %s\", and copy them to each machine",
				err, self(), f.Secrets)
		}
	}
	return nil
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// maxReplicaName is the most bytes that package replica takes.
const maxReplicaName = 48

// replicaName begins the name by which other replicas and logs know this server.
func (f *replicaFlags) replicaName() string {
	name := f.Replica
	if name == "" {
		name, _ = os.Hostname()
	}
	name = notInNames.ReplaceAllString(name, "-")
	return name[:min(len(name), maxReplicaName)]
}
