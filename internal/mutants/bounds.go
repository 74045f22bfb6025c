//go:build unix

package main

// boundMutants are faults in what bounds the work for one request, and in whose account it is done.
var boundMutants = []mutant{
	{
		name: "a pattern may have any program", rule: "docs/mcp-tools.md, waiting",
		file: "internal/pattern/pattern.go", old: "	if size > MaxProgram {", new: "	if false {",
		pkg: "./internal/pattern", run: "TestCompileBoundsProgram",
	},
	{
		name: "a search goes on without its request", rule: "docs/mcp-tools.md, waiting",
		file: "internal/pattern/pattern.go",
		old:  "		if r.err = context.Cause(r.ctx); r.err == nil && r.search.left <= 0 {",
		new:  "		if r.search.left <= 0 {",
		pkg:  "./internal/pattern", run: "TestFindStopsWithItsContext",
	},
	{
		name: "a call searches all output", rule: "docs/mcp-tools.md, waiting",
		file: "internal/pattern/pattern.go", old: "	MaxWork = 1 << 27\n", new: "	MaxWork = 1 << 40\n",
		pkg: "./internal/mcpserver", run: "TestPatternEndsWithItsWork",
	},
	{
		name: "a tenant holds all places", rule: "docs/terminal.md, the last screen",
		file: "internal/quota/places.go",
		old:  "make(chan struct{}, 1)}", new: "make(chan struct{}, cap(p.all))}",
		pkg: "./internal/quota", run: "TestPlacesAreSharedByTenants",
	},
	{
		name: "a screen takes any work", rule: "docs/terminal.md, what it costs",
		file: "internal/execution/screen.go", old: "			case on.Work() > drawWork+drawWorkEach**bytes:",
		new: "			case false:",
		pkg: "./internal/execution", run: "TestScreenOfHostileOutput",
	},
	{
		name: "a reset of the terminal is cheap", rule: "docs/terminal.md, what it costs",
		file: "internal/screen/screen.go", old: "	s.work += int64(len(lines) * s.cols)\n", new: "",
		pkg: "./internal/screen", run: "TestWorkOfSequences",
	},
	{
		name: "schedules start for nobody", rule: "docs/schedules.md, rights",
		file: "internal/node/duties.go", old: "	return n.host.StartFor(ctx, who.Holder(), q)\n",
		new: "	return n.host.Start(ctx, who.Tenant, q)\n",
		pkg: "./cmd/reprise", run: "TestScripts/schedule_principal",
	},
	{
		name: "schedules leave no record", rule: "docs/schedules.md, rights",
		file: "internal/node/duties.go", old: "		if err := n.audit.Record(ctx, e); err != nil {",
		new: "		if err := ctx.Err(); e.Act == \"\" && err != nil {",
		pkg: "./cmd/reprise", run: "TestScripts/schedule_principal",
	},
	{
		name: "code is on the account of its interpreter", rule: "docs/interpreters.md, requests",
		file: "internal/execution/inside.go", old: "		config.Labels[reprise.AccountLabel] = principal\n",
		new: "		config.Labels[reprise.AccountLabel] = of.Labels[reprise.AccountLabel]\n",
		pkg: "./internal/execution", run: "TestCodeIsOnTheAccountOfItsSender",
	},
	{
		name: "one principal opens all interpreters", rule: "docs/interpreters.md",
		file: "internal/execution/queue.go",
		old:  "	case !q.hasShare(own, q.maxDriven-n):\n", new: "	case false:\n",
		pkg: "./internal/execution", run: "TestInterpretersAreShared",
	},
	{
		name: "publishers control terminals", rule: "docs/security.md, what is not protected",
		file: "cmd/reprise/output.go", old: "	if l.terminal {", new: "	if false {",
		pkg: "./cmd/reprise", run: "TestPublishedTextDoesNotControlTerminal",
	},
	{
		name: "JSON of publishers controls terminals", rule: "docs/security.md, what is not protected",
		file: "cmd/reprise/output.go", old: "	if o.terminal {", new: "	if false {",
		pkg: "./cmd/reprise", run: "TestPublishedTextDoesNotControlTerminal",
	},
	{
		name: "a note promises output that is gone", rule: "R8.2",
		file: "internal/mcpserver/cut.go", old: "	if s.after+1 < earliest {\n", new: "	if earliest == 0 {\n",
		pkg: "./internal/mcpserver", run: "TestClipTellsWhatIsGone",
	},
	{
		name: "commands of the tools run in sh", rule: "R8.2",
		file: "internal/mcpserver/execute.go", old: "		r.Shell = s.shell\n", new: "		r.Shell = \"sh\"\n",
		pkg: "./internal/mcpserver", run: "TestCommandsRunInBash",
	},
	{
		name: "killed background processes are not named", rule: "R4.2",
		file: "internal/execution/command/attend.go", old: "	e.KilledProcesses = left.processes\n", new: "",
		pkg: "./internal/execution", run: "TestKilledProcessesAreNamed",
	},
	{
		name: "processes of a cancelled run are named as left behind", rule: "R4.2",
		file: "internal/execution/command/attend.go",
		old:  "	if j.graceEnds.IsZero() { // nobody has ended it\n", new: "	if true {\n",
		pkg: "./internal/execution", run: "TestKilledProcessesAreNamed",
	},
	{
		name: "a prompt overtakes the answer before it", rule: "docs/mcp-tools.md",
		file: "internal/execution/command/pump.go", old: "			p.before.catchUp()\n", new: "",
		pkg: "./internal/mcpserver", run: "TestReplOnPipes",
	},
	{
		name: "output between two calls is skipped", rule: "docs/mcp-tools.md",
		file: "internal/mcpserver/output.go", old: "	s.shown.Store(shownTo{c.tenant, c.who.Name, id}, cursor)\n",
		new: "	s.shown.Store(shownTo{c.tenant, c.who.Name, id}, \"tail\")\n",
		pkg: "./internal/mcpserver", run: "TestStdinShowsWhatNoAnswerHasShown",
	},
	{
		name: "a tool that is not offered is called", rule: "docs/gateway.md, which tools",
		file: "internal/gateway/delivery.go", old: "why := d.g.up.refuseTool(r);", new: "why := (*wire.Failure)(nil);",
		pkg: "./internal/gateway", run: "TestToolsThatAreNotOffered",
	},
	{
		name: "a call has several names", rule: "docs/gateway.md, which tools",
		file: "internal/gateway/offer.go", old: "				delete(params, key)\n", new: "",
		pkg: "./internal/gateway", run: "TestCallsArePassedOnWithOneName",
	},
	{
		name: "the end of a member is not counted", rule: "docs/gateway.md, metrics",
		file: "internal/gateway/merge/member.go",
		old:  "	if s.over = true; s.up {\n", new: "	if s.over = true; false {\n",
		pkg: "./internal/gateway", run: "TestConnectionsAreCountedByMember",
	},
	{
		name: "a search finds tools that are not offered", rule: "docs/gateway.md, which tools",
		file: "internal/gateway/budget.go", old: "		tools = u.onlyOffered(tools)\n", new: "",
		pkg: "./internal/gateway", run: "TestToolsBeyondTheBudget",
	},
	{
		name: "a list of tools has no bound", rule: "docs/gateway.md, which tools",
		file: "internal/gateway/budget.go", old: "	if all <= u.MaxToolsBytes {\n", new: "	if true {\n",
		pkg: "./internal/gateway", run: "TestToolsBeyondTheBudget",
	},
	{
		name: "a tool that is called by its name is not resolved", rule: "docs/gateway.md, which tools",
		file: "internal/gateway/gateway.go", old: "	g.up.resolveCalls(x.Messages)\n",
		new: "",
		pkg: "./internal/gateway", run: "TestToolThatIsCalledByNameAsks",
	},
	{
		name: "calls of members are counted as one upstream", rule: "docs/gateway.md, metrics",
		file: "internal/gateway/offer.go",
		old:  "		return u.Name + \"/\" + name\n", new: "		return u.Name\n",
		pkg: "./internal/gateway", run: "TestCallsAreCountedByMember",
	},
	{
		name: "a whole line ends a wait for a prompt", rule: "docs/mcp-tools.md, waiting",
		file: "internal/mcpserver/page.go", old: "text[len(text)-1] != '\\n' && ", new: "",
		pkg: "./internal/mcpserver", run: "TestUntilPrompt",
	},
	{
		name: "a search of empty lines has no bound", rule: "docs/mcp-tools.md, searching",
		file: "internal/pattern/pattern.go", old: "(len(text) + 1) * s", new: "len(text) * s",
		pkg: "./internal/mcpserver", run: "TestSearchEndsWithItsWork",
	},
	{
		name: "a search shows lines without a bound", rule: "docs/mcp-tools.md, searching",
		file: "internal/mcpserver/search.go", old: "	f.room -= size\n", new: "",
		pkg: "./internal/mcpserver", run: "TestSearchIsBounded",
	},
	{
		name: "a quiet call shows the output", rule: "docs/mcp-tools.md, waiting",
		file: "internal/mcpserver/collect.go", old: "		out.quiet = w\n", new: "",
		pkg: "./internal/mcpserver", run: "TestQuietShowsTheLastLines",
	},
	{
		name: "an earlier prompt answers what is written later", rule: "docs/mcp-tools.md",
		file: "internal/mcpserver/page.go", old: "p.q.wanted.any() && e.Seq > p.q.wantedAfter", new: "p.q.wanted.any()",
		pkg: "./internal/mcpserver", run: "TestStdinShowsWhatNoAnswerHasShown",
	},
	{
		name: "a health check is waited for without its client", rule: "docs/security.md, fairness",
		file: "internal/api/health.go",
		old:  "	case <-ctx.Done():\n", new: "	case <-context.WithoutCancel(ctx).Done():\n",
		pkg: "./internal/api", run: "TestRequestsEndWithTheirClients",
	},
	{
		name: "a sweep is waited for without its client", rule: "docs/security.md, fairness",
		file: "sweep.go",
		old:  "			case <-ctx.Done():\n				return context.Cause(ctx)\n			}\n			defer",
		new:  "			case <-context.WithoutCancel(ctx).Done():\n				return context.Cause(ctx)\n			}\n			defer",
		pkg:  "./internal/api", run: "TestRequestsEndWithTheirClients",
	},
	{
		name: "a tool waits without its client", rule: "docs/mcp-tools.md, waiting",
		file: "internal/mcpserver/watch.go",
		old:  "	case <-ctx.Done():\n", new: "	case <-context.WithoutCancel(ctx).Done():\n",
		pkg: "./internal/mcpserver", run: "TestToolsEndWithTheirClients",
	},
	{
		name: "one append is as large as all that is kept", rule: "R3.1",
		file: "internal/execution/append.go", old: "MaxBytes / keptParts", new: "MaxBytes",
		pkg: "./internal/execution", run: "TestWindowIsFilled",
	},
}
