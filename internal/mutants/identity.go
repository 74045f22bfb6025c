//go:build unix

package main

// identityMutants are faults in who is let in, and for how long.
var identityMutants = []mutant{
	{
		name: "the cookie of a login counts alone", rule: "R10.1",
		file: "internal/identity/gate.go", old: "[]byte(c.Secret)) != 1 {", new: "[]byte(c.Secret)) > 1 {",
		pkg: "./internal/api", run: "TestCookieCountsOnlyWithItsSecret",
	},
	{
		name: "a login ends by its cookie alone", rule: "R10.1",
		file: "internal/identity/gate.go", old: "	c, err := g.login(r, cookie.Value)\n	if err != nil || c.ID",
		new: "	c, err := unseal(g.keys, cookieLabel, cookie.Value, time.Now())\n	if err != nil || c.ID",
		pkg: "./internal/api", run: "TestCookieCountsOnlyWithItsSecret",
	},
	{
		name: "wrong codes of an identity provider are no guesses", rule: "R10.1",
		file: "internal/identity/flow.go",
		old:  "	return token, g.noteGuess(r, err)\n", new: "	return token, err\n",
		pkg: "./internal/api", run: "TestFlowsOfAnybodyAreFew",
	},
	{
		name: "each login that begins asks the identity provider", rule: "R10.1",
		file: "internal/oidc/verifier.go", old: "time.Since(at) < maxDocumentAge", new: "time.Since(at) < 0",
		pkg: "./internal/api", run: "TestFlowsOfAnybodyAreFew",
	},
	{
		name: "a login at a provider goes on with any state", rule: "R10.1",
		file: "internal/identity/flow.go", old: "[]byte(state)) != 1 {", new: "[]byte(state)) > 1 {",
		pkg: "./internal/api", run: "TestFlowsAreNotMixed",
	},
	{
		name: "the nonce of an ID token does not count", rule: "R10.1",
		file: "internal/oidc/flow.go", old: "[]byte(nonce)) != 1 {", new: "[]byte(nonce)) > 1 {",
		pkg: "./internal/api", run: "TestFlowsAreNotMixed",
	},
	{
		name: "an ID token for any client counts", rule: "R10.1",
		file: "internal/oidc/flow.go",
		old:  "by != i || !slices.Contains(c.list(\"aud\", false), i.ClientID)", new: "by != i",
		pkg: "./internal/api", run: "TestFlowsAreNotMixed",
	},
	{
		name: "a code of any issuer is exchanged", rule: "R10.1",
		file: "internal/oidc/flow.go", old: "from != \"\" && from != i.URL", new: "len(from) < 0",
		pkg: "./internal/api", run: "TestFlowsAreNotMixed",
	},
	{
		name: "a proof is good for every address", rule: "R10.1",
		file: "internal/serverproof/serverproof.go", old: "label, challenge, address)", new: "label, challenge, \"\")",
		pkg: "./client", run: "TestTokenIsSentToProvenServerOnly",
	},
	{
		name: "a prefix does not hide executions of other sessions", rule: "R10.2",
		file: "internal/grants/grants.go", old: "err == nil && !allowed(session)", new: "false && !allowed(session)",
		pkg: "./internal/api", run: "TestScopePrefixHidesOtherNames",
	},
	{
		name: "the time of a refusal tells what exists", rule: "R10.2",
		file: "internal/grants/grants.go",
		old:  "		identity.EvenOut(x.R.Context(), begun)\n", new: "		_ = begun\n",
		pkg: "./internal/api", run: "TestAnswersTakeTheSameTime",
	},
	{
		name: "list cursors count the streams of all tenants", rule: "G8",
		file: "log.go", old: "	page.Next = l.lists.sealList(q.Tenant, page.Next)\n", new: "",
		pkg: "./enginetest", run: "TestListCursorsRevealNoOtherTenants",
	},
	{
		name: "the reason of a failed webhook has the server's addresses", rule: "R10.2",
		file: "internal/webhook/send.go", old: "		err = op.Err\n", new: "		_ = op\n",
		pkg: "./internal/webhook", run: "TestReasonsHaveNoAddresses",
	},
	{
		name: "a token is good for every audience", rule: "R10.1",
		file: "internal/oidc/resource.go", old: "	return paths, paths != nil\n", new: "	return nil, true\n",
		pkg: "./internal/oidc", run: "TestBadTokensAreRefused",
	},
	{
		name: "a token for a path is good for all", rule: "R8.10",
		file: "internal/identity/gate.go", old: "p.Paths != nil && ", new: "false && ",
		pkg: "./internal/oidc", run: "TestGateKeepsATokenToItsPath",
	},
	{
		name: "a token never expires", rule: "R10.1",
		file: "internal/oidc/claims.go", old: "	if !now.Before(expires) {", new: "	if false {",
		pkg: "./internal/oidc", run: "TestBadTokensAreRefused",
	},
	{
		name: "a withdrawn key stays good", rule: "R10.1",
		file: "internal/oidc/keyset.go", old: "		k.withdraw(identity.ErrRevoked)\n", new: "		_ = k\n",
		pkg: "./internal/oidc", run: "TestWithdrawnKeyEndsItsTokens",
	},
	{
		name: "unknown keys are asked for each time", rule: "R10.1",
		file: "internal/oidc/keyset.go", old: "time.Since(s.tried) >= s.opts.RefetchEvery", new: "true",
		pkg: "./internal/oidc", run: "TestUnknownKeysAreFetchedOnceInAWhile",
	},
	{
		name: "what is open outlives its token", rule: "R10.1",
		file: "internal/identity/life.go", old: "end(ErrExpired)", new: "_ = ErrExpired",
		pkg: "./cmd/reprise", run: "TestTokensOfIssuersOverMCP",
	},
	{
		name: "sessions and tasks outlive a revoked key", rule: "R10.1",
		file: "internal/apikey/life.go", old: "		l.end(err)\n", new: "		_ = err\n",
		pkg: "./internal/api", run: "TestRevocationEndsWhatIsOpen",
	},
	{
		name: "a task is not cancelled with its principal", rule: "R10.1",
		file: "mcp/mcptask/task.go", old: "		task.cancel(fmt.Errorf(\"%w: %w\", errExcluded,",
		new: "		_ = (fmt.Errorf(\"%w: %w\", errExcluded,",
		pkg: "./mcp/mcptask", run: "TestTasksOfExcludedPrincipalAreCancelled",
	},
	{
		name: "a session does not end with its principal", rule: "R10.1",
		file: "mcp/mcphttp/sessions.go", old: "func() { s.h.begin(s.exclude) })", new: "func() {})",
		pkg: "./mcp/mcphttp", run: "TestSessionsOfExcludedPrincipalEnd",
	},
	{
		name: "a body that arrives outlives its credential", rule: "R10.1",
		file: "internal/httpserver/body.go", new: "",
		old: "		b.cause = cause\n		_ = b.rc.SetReadDeadline(time.Unix(1, 0))\n",
		pkg: "./internal/api", run: "TestRevocationEndsWhatIsOpen",
	},
	{
		name: "a request that is ended spoils its connection", rule: "R10.8",
		file: "internal/httpserver/body.go", old: "!b.interleaved && !b.ended {", new: "!b.interleaved {",
		pkg: "./internal/httpserver", run: "TestConnectionAfterRequestWasEnded",
	},
	{
		name: "a download outlives its credential", rule: "R10.1",
		file: "internal/web/range.go", old: "	if w.ctx.Err() != nil {\n", new: "	if false {\n",
		pkg: "./internal/api", run: "TestRevocationEndsWhatIsOpen",
	},
	{
		name: "a task at the gateway outlives a revoked key", rule: "R10.1",
		file: "internal/node/gateway.go", old: "				Life: n.lives(), Logger: n.Logger,\n",
		new: "				Logger: n.Logger,\n",
		pkg: "./cmd/reprise", run: "TestRevokedKeyEndsWhatIsOpenAtTheGateway",
	},
	{
		name: "a session at the gateway outlives a revoked key", rule: "R10.1",
		file: "internal/node/gateway.go", old: "			Life: n.lives(), Name: route.Name, ",
		new: "			Name: route.Name, ",
		pkg: "./cmd/reprise", run: "TestRevokedKeyEndsWhatIsOpenAtTheGateway",
	},
	{
		name: "a response of the gateway outlives a revoked key", rule: "R10.1",
		file: "internal/node/gateway.go",
		old:  "identity.WhileGood(identity.NewContext(withVerdict(r.Context()), &who), &who)",
		new:  "identity.NewContext(withVerdict(r.Context()), &who), func() {}",
		pkg:  "./cmd/reprise", run: "TestRevokedKeyEndsWhatIsOpenAtTheGateway",
	},
	{
		name: "a tool asks a principal's name and not its token", rule: "R8.10",
		file: "internal/oidc/verifier.go", old: "	return v.next.Named(ctx, tenant, name)\n",
		new: "	for _, p := range v.cache.tokens {\n		return p, nil\n	}\n	return v.next.Named(ctx, tenant, name)\n",
		pkg: "./internal/oidc", run: "TestPrincipalsOfIssuersAreNotKnownByName",
	},
	{
		name: "a prefix permits MCP sessions", rule: "R10.2",
		file: "internal/mcpapi/sessions.go", old: "	if !x.Who.MayAll(scope) {", new: "	if false {",
		pkg: "./cmd/reprise", run: "TestGatewayShowsSessionsAndTasks",
	},
	{
		name: "a task is shown to others of its tenant", rule: "R10.2",
		file: "internal/mcpapi/tasks.go", old: "err == nil && !mayTask(x, task.Principal)", new: "false",
		pkg: "./cmd/reprise", run: "TestGatewayShowsSessionsAndTasks",
	},
	{
		name: "who may write to a run is shown its output", rule: "R10.1",
		file: "internal/mcpserver/output.go", old: "s.enterFor(ctx, req, toolOutput, in.ID)",
		new: "s.enterFor(ctx, req, toolStdin, in.ID)",
		pkg: "./internal/mcpserver", run: "TestStdinShowsOutputToReadersOnly|TestEachToolNeedsItsScopes",
	},
	{
		name: "a token that can be guessed is proven", rule: "docs/security.md, what is not protected",
		file: "internal/node/engine.go",
		old:  "	if len(token) < serverproof.MinToken {", new: "	if token == \"\" {",
		pkg: "./internal/node", run: "TestShortTokenIsNotProven",
	},
	{
		name: "a webhook goes to this machine by a translated address", rule: "R10.2",
		file: "internal/webhook/dial.go",
		old:  "\"::/96\", \"::ffff:0:0:0/96\",", new: "\"::/96\",",
		pkg: "./internal/webhook", run: "TestReceiverAddressIsChecked",
	},
}
