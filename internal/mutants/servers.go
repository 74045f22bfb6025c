//go:build unix

package main

// serverMutants are faults in what serves the engine.
var serverMutants = []mutant{
	{
		name: "scopes that were not granted are shown", rule: "docs/console.md",
		file: "internal/api/boundary.go", old: "if x.Who.May(scope) {", new: "if true {",
		pkg: "./internal/api", run: "TestShowServer",
	},
	{
		name: "--log-requests reaches no log", rule: "docs/operate.md, logs",
		file: "internal/api/api.go", old: "LogRequests: s.opts.LogRequests,", new: "",
		pkg: "./cmd/reprise", run: "TestScripts/log_requests",
	},
	{
		name: "a refused origin is no warning", rule: "docs/operate.md, logs",
		file: "internal/web/guard.go", old: "		recordOf(w).OriginRefused = true\n", new: "",
		pkg: "./internal/api", run: "TestOriginIsChecked",
	},
	{
		name: "a publisher learns that a stream of others exists", rule: "G8",
		file: "internal/api/streams.go",
		old:  "scope == identity.ScopePublish && errors.Is",
		new:  "stream == nil && x.Who.MayOn(scope, key.Name) && errors.Is",
		pkg:  "./internal/api", run: "TestErrorsOnTheWayToAStream",
	},
	{
		name: "a slash in a path is no hint", rule: "docs/protocol.md, streams of your own",
		file: "internal/api/routes.go", old: "ok && len(from)", new: "!ok && len(from)",
		pkg: "./internal/api", run: "TestErrorsOnTheWayToAStream",
	},
	{
		name: "a refused read is not logged", rule: "docs/operate.md, logs",
		file: "internal/httpserver/record.go", old: "refused := status >= 400 && ", new: "refused := status >= 500 && ",
		pkg: "./internal/httpserver", run: "TestRequestsThatAreLogged",
	},
	{
		name: "what a stream was made with is sent again", rule: "G2",
		file: "mcp/mcphttp/early.go", old: "		if i < n {\n", new: "		if false {\n",
		pkg: "./mcp/mcphttp", run: "TestCallIsOneCommit",
	},
	{
		name: "the stream of a call is made without its answer", rule: "one commit for a call",
		file: "mcp/mcphttp/post.go", old: "Owner: owner, Events: events}", new: "Owner: owner, Events: nil}",
		pkg: "./mcp/mcphttp", run: "TestCallIsOneCommit",
	},
	{
		name: "one principal takes all places", rule: "docs/security.md, fairness",
		file: "internal/execution/queue.go", old: "has < shareOfFree*free", new: "free > 0",
		pkg: "./internal/execution", run: "TestFloodOfOnePrincipalLeavesPlaces",
	},
	{
		name: "the place is not free at the end", rule: "docs/security.md, quotas",
		file: "internal/execution/append.go", old: "	r.host.queue.leave(r)\n", new: "",
		pkg: "./internal/execution", run: "TestEndedCommandFreesItsPlace",
	},
	{
		name: "a reader that goes is counted for ever", rule: "docs/security.md, quotas",
		file: "internal/reads/reads.go", old: "	x.AtEnd(release)\n", new: "	_ = release\n",
		pkg: "./internal/api", run: "TestClientsThatGoLeaveNothing",
	},
	{
		name: "the beginning of a secret is given out", rule: "docs/security.md, named secrets",
		file: "internal/execution/command/mask.go", old: "		if !last {\n", new: "		if false {\n",
		pkg: "./internal/execution/command", run: "TestMasker",
	},
	{
		name: "events do without heartbeats", rule: "G5, row 6",
		file: "internal/sseloop/*.go", old: "heartbeat.Reset(c.beat(h))", new: "heartbeat.Reset(c.Silence)",
		pkg: "./sse/ssehttp", run: "TestIdleReaderGetsHeartbeatsBesideVisitors|TestHeartbeatAfterSilence",
	},
	{
		name: "readers that leave events out get others late", rule: "docs/protocol.md, types",
		file: "internal/sseloop/sseloop.go",
		old:  "			c.Flush()\n			c.beat(h)\n", new: "			c.beat(h)\n",
		pkg: "./sse/ssehttp", run: "TestHistoryIsNotHeldBackBySlowStore",
	},
	{
		name: "gap in mid-stream is not told",
		rule: "G1",
		file: "sse/ssehttp/conn.go",
		old:  "	c.write(c.form.AppendGap(nil, NewGap(c.Reader, refused, at)))\n",
		new:  "",
		pkg:  "./sse/ssehttp",
		run:  "TestGapInTheMiddle",
	},
	{
		name: "fenced output leaves the command running",
		rule: "G9, survivor",
		file: "internal/execution/append.go",
		old:  "		r.fence()\n	case isFull(err):\n",
		new:  "	case isFull(err):\n",
		pkg:  "./internal/execution",
		run:  "TestReplicaWasOnlySlow|TestFencedOutputKillsCommand",
	},
	{
		name: "principals share a connection", rule: "G8, survivor",
		file: "internal/gateway/*.go internal/gateway/*/*.go", old: "ompact(x.Principal)", new: `ompact("")`,
		pkg: "./internal/gateway", run: "TestPrincipalsDoNotShareAConnection",
	},
	{
		name: "what a connection was made with is not compared", rule: "G8",
		file: "internal/gateway/user.go", old: " && u.credential.Digest() == other.credential.Digest()", new: "",
		pkg: "./internal/gateway", run: "TestAnotherCredentialIsAnotherConnection",
	},
	{
		name: "a call that has begun is refused as if it had not", rule: "G9, docs/mcp.md",
		file: "mcp/mcphttp/early.go", old: "		answerUnknown(w, x, err)\n		return nil\n",
		new: "		return refusalOf(err)\n",
		pkg: "./mcp/mcphttp", run: "TestCallWhoseStreamCannotBeMade",
	},
	{
		name: "a claim may hold the next value of a header", rule: "docs/gateway.md",
		file: "internal/gateway/credential/credential.go",
		old:  "		bad = notInHeader\n", new: "		bad = isControl\n",
		pkg: "./internal/gateway/credential", run: "TestMissingAttributeIsAnError|FuzzClaimsDoNotBreakOut",
	},
	{
		name: "merged upstream that is away is not listed", rule: "docs/gateway.md",
		file: "internal/gateway/merge/known.go", old: "	if s == nil || k.isFresh(",
		new: "	if s == nil {\n		m.mu.Unlock()\n		return nil\n	}\n	if k.isFresh(",
		pkg: "./internal/gateway", run: "TestMergedUpstreamEndsAlone",
	},
	{
		name: "merged upstream is listed anew each time", rule: "docs/gateway.md, lists are kept",
		file: "internal/gateway/merge/known.go", old: "	return k.from == s && ",
		new: "	return false && k.from == s && ",
		pkg: "./internal/gateway", run: "TestMergedListsAreKept",
	},
	{
		name: "a list that comes late is not told", rule: "docs/gateway.md, lists are kept",
		file: "internal/gateway/merge/known.go", old: "	if tell && ", new: "	if false && tell && ",
		pkg: "./internal/gateway", run: "TestMergedUpstreamThatFreezesIsListedAsItWas",
	},
	{
		name: "what the socket of a parked reader does not accept is lost", rule: "G1",
		file: "internal/park/response.go", old: "			w.rest = w.rest[n:]\n", new: "			w.rest = nil\n",
		pkg: "./internal/park", run: "TestParkedReaderThatIsSlow",
	},
	{
		name: "parked call is made again whatever its tool says", rule: "G9",
		file: "internal/gateway/schemas.go", old: "repeats: repeats}", new: "repeats: repeats || true}",
		pkg: "./internal/gateway", run: "TestParkedCallThatMayDoHarmIsNotRepeated",
	},
	{
		name: "start with the same id runs again", rule: "G9",
		file: "internal/execution/start.go", old: "	if created {\n", new: "	if true {\n",
		pkg: "./internal/execution", run: "TestStartIsOnce",
	},
	{
		name: "a prefix does not bound the sessions that are read",
		rule: "G8",
		file: "internal/grants/grants.go",
		old:  "return x.Who.MayReadAs(key, session) })",
		new:  "return key.Name != session })",
		pkg:  "./internal/api",
		run:  "TestScopePrefixHidesOtherNames",
	},
	{
		name: "a journal is in use before all its records were read", rule: "G8, R10.1",
		file: "internal/journal/stream.go", old: "		case events.Len() > 0 && !isReady:\n",
		new: "		case false:\n",
		pkg: "./internal/journal", run: "TestRecordsAreTakenBeforeReady",
	},
	{
		name: "a store that has lost a revocation is not told again", rule: "G8, R10.1",
		file: "internal/apikey/registry.go", old: "		r.revokeAgain(e)\n	}\n}\n", new: "	}\n}\n",
		pkg: "./internal/apikey", run: "TestLostRevocationIsRepeated",
	},
	{
		name: "compressed live events are held back",
		rule: "R2.1",
		file: "internal/contentcoding/writer.go",
		old:  "	w.sendPending()\n	if w.err != nil {\n		return w.err\n",
		new:  "	if w.err != nil {\n		return w.err\n",
		pkg:  "./internal/contentcoding",
		run:  "TestFlushedIsDecodable",
	},
	{
		name: "the leftmost address of X-Forwarded-For counts",
		rule: "R10.9",
		file: "internal/httpserver/proxies.go",
		old:  "		if !p.trusts(addr.Addr()) {\n			break\n		}\n",
		new:  "",
		pkg:  "./internal/httpserver",
		run:  "TestClientBehindProxies",
	},
	{
		name: "a change is made before its record", rule: "R10.6",
		file: "internal/web/journal.go", old: "	return m.opts.Journal.Record(x.R.Context(), act(x, rt))\n",
		new: "	m.opts.Journal.Note(act(x, rt))\n	return nil\n",
		pkg: "./internal/api", run: "TestChangesFailWithTheirRecord",
	},
}

// outsideMutants are found by the checker that speaks HTTP alone.
var outsideMutants = []mutant{
	{
		name:    "outside: failed commit is acknowledged",
		rule:    "G6, row 1",
		file:    "commit.go",
		old:     "	default:\n		c.verdict.decide(Appended{}, err)\n",
		new:     "	default:\n		c.verdict.decide(c.found, nil)\n",
		torture: "-stores redis -for 25s -seed 1",
	},
	{
		name: "outside: reader skips an event", rule: "G1 G3",
		file: "reader.go", old: "r.next = events.Last() + 1", new: "r.next = events.Last() + 1 + events.Last()%97/96",
		torture: "-stores memory -for 15s -seed 1",
	},
	{
		name: "outside: duplicate is stored again", rule: "G9",
		file: "appender.go", old: "	case p.Seq == next:\n", new: "	case p.Seq <= next:\n",
		torture: "-stores memory -for 25s -seed 1",
	},
	{
		name: "outside: stream keeps more events than it may", rule: "G7",
		file: "commit.go", old: "c.found.Last - bound + 1)", new: "c.found.Last - bound)",
		torture: "-stores memory -for 15s -seed 1",
	},
	{
		name: "outside: streams of another tenant are listed", rule: "G8",
		file:    "internal/api/streams.go",
		old:     "q := reprise.ListQuery{Tenant: x.Who.Tenant, Limit: limit, After: cursor}",
		new:     "q := reprise.ListQuery{Tenant: reprise.DefaultTenant, Limit: limit, After: cursor}",
		torture: "-stores memory -for 15s -seed 1",
	},
}
