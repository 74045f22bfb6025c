//go:build unix

package main

// quotaMutants are faults in quotas at the gateway, in what outlives it, and in where secrets are.
var quotaMutants = []mutant{
	{
		name: "the gateway counts no requests", rule: "docs/gateway.md, quotas",
		file: "internal/node/mcpquota.go", old: "n.quotas.Spend(who.Holder(), quota.Requests, int64(requests))",
		new: "n.quotas.Spend(who.Holder(), quota.Requests, 0)",
		pkg: "./cmd/reprise", run: "TestScripts/gateway_quota",
	},
	{
		name: "a call that has ended still counts", rule: "docs/gateway.md, quotas",
		file: "internal/node/mcpquota.go",
		old:  "		for _, one := range taken {\n			one()\n",
		new:  "		for range taken {\n",
		pkg:  "./cmd/reprise", run: "TestLimitsOfTokensApplyToWhatIsKept|TestScripts/gateway_quota",
	},
	{
		name: "a session that has ended still counts", rule: "docs/gateway.md, quotas",
		file: "internal/quota/book.go", old: "		t.book.add(a.Account, t.name, -1)\n", new: "		_ = a\n",
		pkg: "./internal/quota", run: "TestBoundsOfPrincipalsAndTenants",
	},
	{
		name: "refused requests reach the upstream", rule: "docs/gateway.md, quotas",
		file: "internal/gateway/gateway.go", old: "		if refused != nil {\n", new: "		if false {\n",
		pkg: "./internal/gateway", run: "TestRefusedRequestsDoNotReachTheUpstream",
	},
	{
		name: "a call that has become a task counts no longer", rule: "docs/gateway.md, quotas",
		file: "internal/gateway/tasks.go", old: "	defer t.g.stay(x)()\n", new: "",
		pkg: "./internal/gateway", run: "TestTasksStayAdmitted",
	},
	{
		name: "limits of tokens are forgotten at once", rule: "docs/security.md, quotas",
		file: "internal/node/bearers.go",
		old:  "		*h = known\n",
		new:  "		_ = known\n",
		pkg:  "./cmd/reprise", run: "TestLimitsOfTokensApplyToWhatIsKept",
	},
	{
		name: "limits of tokens are never forgotten", rule: "docs/security.md, quotas",
		file: "internal/recent/recent.go", old: "len(m.young) >= Bound", new: "false",
		pkg: "./internal/recent", run: "TestMapForgetsWhatIsNotUsed",
	},
	{
		name: "the claim with limits is ignored", rule: "docs/security.md, identity providers",
		file: "internal/oidc/claims.go", old: "	if !ok || i.LimitsClaim == \"\" {", new: "	if !ok || true {",
		pkg: "./internal/oidc", run: "TestLimitsComeFromClaims",
	},
	{
		name: "an upstream is called without a record", rule: "docs/security.md, audit log",
		file: "internal/node/mcpquota.go",
		old:  "		return n.recordPassed(r, messages, upstream)\n",
		new:  "		return nil\n",
		pkg:  "./cmd/reprise", run: "TestScripts/gateway_users",
	},
	{
		name: "a record with another code holds", rule: "docs/security.md, audit log",
		file: "internal/audit/check.go", old: " || !rec.holds(c.keys) {", new: " {",
		pkg: "./internal/audit", run: "TestChangesShow",
	},
	{
		name: "the gateway knows no certificates", rule: "docs/security.md, client certificates",
		file: "internal/node/engine.go",
		old:  "verifier, access.Certificates = identity.Verifiers{verifier, n.keys}, n.keys",
		new:  "verifier = identity.Verifiers{verifier, n.keys}",
		pkg:  "./cmd/reprise", run: "TestClientCertificatesAtTheGateway",
	},
	{
		name: "commands can read the file with the URL of the store",
		rule: "docs/security.md, the password of the store",
		file: "cmd/reprise/settings.go", old: "		paths = append(paths, c.Store.file)\n", new: "",
		pkg: "./cmd/reprise", run: "TestPasswordOfTheStoreStaysWithTheServer",
	},
	{
		name: "a password that ends early is shown", rule: "docs/security.md, the password of the store",
		file: "internal/storeurl/storeurl.go", old: "	case endsInPassword(url):\n", new: "	case false:\n",
		pkg: "./internal/storeurl", run: "TestMalformedURLDoesNotShowItsPassword",
	},
	{
		name: "a stopped gateway cancels what its tasks go on with", rule: "docs/gateway.md, tasks after a restart",
		file: "internal/gateway/delivery.go", old: "			d.leaveRunning(context.Cause(ctx))\n", new: "",
		pkg: "./internal/gateway", run: "TestTasksOfRemoteUpstreamGoOnAfterARestart",
	},
	{
		name: "a stopped gateway ends the sessions of its tasks", rule: "docs/gateway.md, tasks after a restart",
		file: "internal/gateway/connection.go", old: "		l.Keep()\n", new: "",
		pkg: "./internal/gateway", run: "TestTasksOfRemoteUpstreamGoOnAfterARestart",
	},
}
