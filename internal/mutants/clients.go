//go:build unix

package main

// clientMutants are faults in clients, and in what the wire promises them.
var clientMutants = []mutant{
	{
		name: "a schedule is made twice", rule: "decision 60",
		file: "client/noun.go", old: "	r.once = true\n	return answer[T](ctx, n.client, r)\n}\n\n// ask ",
		new: "	return answer[T](ctx, n.client, r)\n}\n\n// ask ",
		pkg: "./client", run: "TestNounsAreAskedByPath",
	},
	{
		name: "a secret is replaced twice", rule: "decision 60",
		file: "client/webhook.go", old: "{op: \"rotate\", method: http.MethodPost, once: true}",
		new: "{op: \"rotate\", method: http.MethodPost}",
		pkg: "./client", run: "TestNounsAreAskedByPath",
	},
	{
		name: "the text of a key is replaced twice", rule: "decision 60",
		file: "client/key.go", old: "{op: \"rotate\", method: http.MethodPost, once: true}",
		new: "{op: \"rotate\", method: http.MethodPost}",
		pkg: "./client", run: "TestNounsAreAskedByPath",
	},
	{
		name: "a key without limits is refused", rule: "decision 25",
		file: "client/key.go", old: "	if limits == nil {\n", new: "	if false {\n",
		pkg: "./client", run: "TestNounsAreAskedByPath",
	},
	{
		name: "a gap of the audit log is refused", rule: "decision 60",
		file: "client/audit.go", old: "	asked.gapEvent = true\n", new: "",
		pkg: "./client", run: "TestNounsAreAskedByPath",
	},
	{
		name: "an object that was removed is missed", rule: "decision 60",
		file: "client/noun.go", old: "failed.Tries > 1", new: "failed.Tries > 9",
		pkg: "./client", run: "TestRemoveAfterALostAnswer",
	},
	{
		name: "calls that wait go one by one", rule: "decision 50",
		file: "client/coalesce.go", old: "		if n > 0 && (", new: "		if n > 0 && (true || ",
		pkg: "./client", run: "TestCallsThatWaitArePublishedTogether",
	},
	{
		name: "a wrong call fails the others", rule: "decision 50",
		file: "client/coalesce.go", old: "	if len(batch) > 1 && refusedAsAWhole(err) {", new: "	if false {",
		pkg: "./client", run: "TestCallsOfARefusedRequestAreSentForThemselves",
	},
	{
		name: "a call that was cancelled is published", rule: "decision 50",
		file: "client/coalesce.go",
		old:  "	if own.sent == nil {\n", new: "	if own.sent == nil {\n		return\n",
		pkg: "./client", run: "TestCancelledCallLeavesTheOthers",
	},
	{
		name: "the end of a stream goes with calls that wait", rule: "decision 50",
		file: "client/coalesce.go", old: "one.events == nil || p.queue[0]", new: "p.queue[0]",
		pkg: "./client", run: "TestEndKeepsItsPlaceAmongCallsThatWait",
	},
	{
		name: "calls that are too much together fail together", rule: "decision 50",
		file: "client/coalesce.go", old: " || p.Code == problem.CodePayloadTooLarge", new: "",
		pkg: "./client", run: "TestCallsOfARefusedRequestAreSentForThemselves",
	},
	{
		name: "a call is told the seq of another", rule: "decision 50",
		file: "client/coalesce.go", old: "all.First + uint64(count) - 1", new: "all.First + uint64(count)",
		pkg: "./client", run: "TestCallsOverCutConnectionsArePublishedOnce",
	},
	{
		name: "first contact has no limit", rule: "client rule 5",
		file: "client/follow.go", old: "	if !met && f.opts.GiveUp == 0 && ", new: "	if false && ",
		pkg: "./client", run: "TestFirstContactIsLimited",
	},
	{
		name: "the debug log is not told of a drop", rule: "docs/clients.md, REPRISE_LOG",
		file: "client/follow.go", old: "	f.state(stateWaiting, ", new: "	f.state(stateLive, ",
		pkg: "./client", run: "TestDebugLogHasStatesAndNoToken",
	},
	{
		name: "a POST is repeated", rule: "docs/clients.md, any source",
		file: "sse/sseclient/client.go", old: "	if isPassing(err) && !r.opts.repeats(err) {", new: "	if false {",
		pkg: "./sse/sseclient", run: "TestRequestsThatAreNotIdempotentAreNotRepeated",
	},
	{
		name: "a run that is left goes on", rule: "client rule 15",
		file: "client/run.go", old: "	if !f.started || ", new: "	if true || ",
		pkg: "./client", run: "TestRunLeftEarlyIsCancelled",
	},
	{
		name: "a named run that is left is cancelled", rule: "client rule 15",
		file: "client/run.go", old: "		if run.ID == \"\" && !f.opts.Detach {", new: "		if !f.opts.Detach {",
		pkg: "./client", run: "TestRunLeftEarlyIsCancelled",
	},
	{
		name: "the id of a gap comes before its data", rule: "G1, docs/protocol.md",
		file: "sse/ssehttp/form.go",
		old: "	dst = append(dst, \"event: \"+reprise.TypeGap+\"\\ndata: \"...)\n" +
			"	return append(append(dst, data...), \"\\nid: \"+gap.Cursor+\"\\n\\n\"...)\n",
		new: "	dst = append(dst, \"id: \"+gap.Cursor+\"\\nevent: \"+reprise.TypeGap+\"\\ndata: \"...)\n" +
			"	return append(append(dst, data...), \"\\n\\n\"...)\n",
		pkg: "./sse/ssehttp", run: "TestIDIsTheLastFieldOfAFrame",
	},
	{
		name: "gzip that nobody asked for is not decoded", rule: "client rule 14",
		file: "internal/ssefollow/coding.go",
		old:  "	case \"gzip\", \"x-gzip\":\n", new: "	case \"x-gzip\":\n",
		pkg: "./internal/clienttest", run: "TestGoClientsPass",
	},
	{
		name: "an unknown coding is no error", rule: "client rule 14",
		file: "client/call.go",
		old:  "err != nil && res.StatusCode < http.StatusBadRequest {", new: "err != nil && false {",
		pkg: "./internal/clienttest", run: "TestGoClientsPass",
	},
	{
		name: "a missing start is no gap event", rule: "G1, R2.11",
		file: "sse/ssehttp/request.go", old: "	if req.GapEvent && (req.After == ",
		new: "	if false && (req.After == ",
		pkg: "./sse/ssehttp", run: "TestMissingStartIsAGapEvent",
	},
	{
		name: "a foreign bare id moves the cursor", rule: "G1, client rule 12",
		file: "client/track.go",
		old:  "	case !t.filtered || !t.owns(c.Epoch):\n", new: "	case c.Epoch == \"\":\n",
		pkg: "./internal/clienttest", run: "TestGoClientsPass",
	},
	{
		name: "a foreign event of another epoch is given", rule: "G2, client rule 12",
		file: "client/foreignblock.go", old: "	return !t.follows(event.Seq)\n", new: "	return false\n",
		pkg: "./internal/clienttest", run: "TestGoClientsPass",
	},
	{
		name: "end of a response is taken for the end of the stream",
		rule: "G4, client rule 3",
		file: "internal/ssefollow/ssefollow.go",
		old:  "			err = ErrDropped\n",
		new:  "			err = ErrStop\n",
		pkg:  "./sse/sseclient",
		run:  "TestLastEventID",
	},
	{
		name: "hole is passed over", rule: "G1, client rule 2",
		file: "client/track.go", old: "	case t.known && !t.filtered && seq != t.seq+1:\n", new: "	case false:\n",
		pkg: "./client", run: "TestForeignEventsAreNotGiven",
	},
	{
		name: "last event id moves before the event is handled", rule: "G1, client rule 1",
		file: "sse/sseclient/client.go", old: "	if block.Data != nil {\n", new: "	r.handled(block.LastEventID)\n	if block.Data != nil {\n",
		pkg: "./sse/sseclient", run: "TestBrokenLoopGetsItsEventAgain",
	},
	{
		name: "slow bytes are silence", rule: "client rule 6",
		file: "internal/ssefollow/ssefollow.go", old: "size: leastRead}", new: "size: 1 << 20}",
		pkg: "./sse/sseclient", run: "TestSlowBytesAreNoSilence",
	},
	{
		name: "headers go to other origins", rule: "client rule 10",
		file: "sse/sseclient/client.go", old: "req.URL.Host != c.url.Host {", new: "false {",
		pkg: "./sse/sseclient", run: "TestRedirects",
	},
	{
		name: "foreign block ends a loop", rule: "client rule 12",
		file: "client/connection.go", old: "	if f.track.disowns(&frame, &event, err) {\n", new: "	if false {\n",
		pkg: "./client", run: "TestForeignEventsAreNotGiven",
	},
	{
		name: "types of an EventSource's own handlers are published", rule: "client rule 11",
		file: "event.go", old: "t == TypeError || t == TypeOpen || ", new: "",
		pkg: "./internal/api", run: "TestTypesWithMeaningsAreNotPublished",
	},
	{
		name: "a proxy's 204 is the end of the stream", rule: "G4, client rule 3",
		file: "client/connection.go", old: " && res.Header.Get(\"Stream-Outcome\") != \"\":\n", new: ":\n",
		pkg: "./client", run: "TestFollowOutlastsForeignAnswersInMidRun",
	},
	{
		name: "a client never polls", rule: "client rule 16",
		file: "client/held.go", old: "		h.silent++\n", new: "",
		pkg: "./client", run: "TestFollowPollsBehindAProxyThatHoldsBack",
	},
	{
		name: "a client polls for ever", rule: "client rule 16",
		file: "client/held.go", old: ">= h.wait/4\n", new: ">= h.wait*4\n",
		pkg: "./client", run: "TestFollowPollsBehindAProxyThatHoldsBack",
	},
	{
		name: "a start that was held back is sent again for ever", rule: "client rule 16",
		file: "client/follow.go", old: " && !f.held.polls() {\n", new: " {\n",
		pkg: "./client", run: "TestRunPollsBehindAProxyThatHoldsBack",
	},
	{
		name: "an answer with wait goes on", rule: "client rule 16",
		file: "internal/reads/reads.go", old: "			end(errWaited)\n		}\n", new: "		}\n",
		pkg: "./internal/api", run: "TestFollowedAnswersEndWithWhatThereIs",
	},
	{
		name: "the id of an MCP stream comes before its data", rule: "client rule 1",
		file: "mcp/mcphttp/response.go", old: `"data: \nid: %s\n\n"`, new: `"id: %s\ndata: \n\n"`,
		pkg: "./mcp/mcphttp", run: "TestTranscriptsOfWireTraffic",
	},
	{
		name: "an MCP message has no id", rule: "client rule 1",
		file: "mcp/mcphttp/form.go", old: `e.Data), "\nid: "...)`, new: `e.Data), "\nxx: "...)`,
		pkg: "./mcp/mcphttp", run: "TestTranscriptsOfWireTraffic",
	},
	{
		name: "another instance of a client rejoins its session", rule: "mcp.md",
		file: "mcp/mcphttp/initialize.go", old: ` || s.now().Instance != instance`, new: "",
		pkg: "./mcp/mcphttp", run: "TestInitializeOfTheSameClientInstance",
	},
	{
		name: "1e3 is no integer", rule: "openapi.yaml, integers",
		file: "internal/web/decode.go",
		old:  "	c.integers = append(c.integers, integer{from, to, digits})\n", new: "	_ = digits\n",
		pkg: "./internal/web", run: "TestDecodeRewritesIntegersAlone",
	},
	{
		name: "an integer has any number of digits", rule: "openapi.yaml, integers",
		file: "internal/jsonscan/jsonscan.go", old: "len(significant)+zeros > maxDigits", new: "false",
		pkg: "./internal/jsonscan", run: "TestIntegerHoweverItIsWritten",
	},
	{
		name: "published JSON is nested without a limit", rule: "client rule 11",
		file: "internal/web/decode.go", old: "		if jsonscan.Depth(text) > jsonscan.MaxDepth {\n",
		new: "		if false {\n",
		pkg: "./internal/api", run: "TestPublishRefusesDeepNesting",
	},
	{
		name: "other bytes follow a failed write of stdin", rule: "G9, client rule 7",
		file: "client/stdin.go", old: "	if !bytes.HasPrefix(chunk, w.doubt) {\n", new: "	if false {\n",
		pkg: "./client", run: "TestStdinWriterRefusesOtherBytesAfterFailedWrite",
	},
	{
		name: "Go: an event counts as handled before the loop has it", rule: "client rule 1",
		file: "client/connection.go", old: "	if f.wanted(event.Type) && !f.yield(event, nil) {\n",
		new: "	_ = f.saver.handled(ctx, event.Cursor)\n	if f.wanted(event.Type) && !f.yield(event, nil) {\n",
		pkg: "./client", run: "TestKilledHandlerGetsItsEventAgain|TestSaveEvery",
	},
	{
		name: "Go: the cursor is not saved before a long wait", rule: "client rule 1",
		file: "client/follow.go", old: "	return pause, f.saver.flush(ctx) // the wait may be a long one\n",
		new: "	return pause, nil\n",
		pkg: "./client", run: "TestSaveBeforeALongWait",
	},
	{
		name: "Go: the position of the tail is forgotten", rule: "client rule 1",
		file: "client/follow.go", old: "	f.track.begin(page.NextCursor)\n",
		new: "",
		pkg: "./client", run: "TestFollowFromTheTail",
	},
	{
		name: "Go: a repeated event is given", rule: "client rule 2",
		file: "client/track.go", old: "	case t.known && seq <= t.seq:\n		return false, nil\n	case t.known && !t.filtered",
		new: "	case t.known && seq <= t.seq:\n		return true, nil\n	case t.known && !t.filtered",
		pkg: "./client", run: "TestFollowLeavesOutWhatItHasSeen",
	},
	{
		name: "Go: another epoch may go back", rule: "client rule 2",
		file: "client/track.go", old: "	case readable && t.isRenewed(c.Epoch) && seq <= t.seq:\n",
		new: "	case false:\n",
		pkg: "./client", run: "TestAnotherEpochNeverGoesBack",
	},
	{
		name: "Go: the end of a filtered stream is not asked for", rule: "client rule 3",
		file: "client/follow.go", old: "		if !slices.Contains(types, reprise.TypeEnd) {\n",
		new: "		if false {\n",
		pkg: "./client", run: "TestFollowRequestHasPathTypesAndCursor",
	},
	{
		name: "Go: retry is ignored", rule: "client rule 4",
		file: "client/follow.go", old: "f.wait.Next(max(askedWait(err), retry))",
		new: "f.wait.Next(askedWait(err))",
		pkg: "./client", run: "TestFollowWaitsAsItIsAsked",
	},
	{
		name: "Go: Retry-After is ignored", rule: "client rule 4",
		file: "client/follow.go", old: "f.wait.Next(max(askedWait(err), retry))",
		new: "f.wait.Next(retry)",
		pkg: "./client", run: "TestFollowWaitsAsItIsAsked",
	},
	{
		name: "Go: waits have no random part", rule: "client rule 4",
		file: "internal/backoff/backoff.go", old: "	return rand.N(max(b.span, 1))\n",
		new: "	_ = rand.N[time.Duration]\n	return max(b.span, 1) - 1\n",
		pkg: "./internal/backoff", run: "TestPausesGrowUpToMost|TestFailures",
	},
	{
		name: "Go: waits grow without a limit", rule: "client rule 4",
		file: "internal/backoff/backoff.go", old: "	case b.span > b.Most/2:\n",
		new: "	case b.span > b.Most*2:\n",
		pkg: "./internal/backoff", run: "TestPausesGrowUpToMost|TestFailures",
	},
	{
		name: "Go: a comment at the beginning is a success", rule: "client rule 4",
		file: "client/connection.go", old: "	if time.Since(f.begun) >= ssefollow.MinProductive {\n",
		new: "	if ssefollow.MinProductive > 0 {\n",
		pkg: "./client", run: "TestFollowReconnectsAtOnceAfterAHeartbeat|TestFollowCountsHeartbeatsByLine",
	},
	{
		name: "Go: a final refusal is tried again", rule: "client rule 5",
		file: "client/errors.go", old: "		return p.Retryable\n",
		new: "		return p.Code != \"\"\n",
		pkg: "./client", run: "TestFollowEndsWithWhatLasts",
	},
	{
		name: "Go: an answer of something else is tried again before the server was met", rule: "client rule 5",
		file: "client/foreign.go", old: "	if !met || !isForeign(err) {\n",
		new: "	if !isForeign(err) {\n",
		pkg: "./client", run: "TestForeignFirstAnswerIsFinal",
	},
	{
		name: "Go: an answer of something else is tried again for ever", rule: "client rule 5",
		file: "client/foreign.go", old: "	return time.Since(s.since)+pause <= bound\n",
		new: "	return bound > 0\n",
		pkg: "./client", run: "TestFollowGivesUpOnForeignAnswersAfterAMinute",
	},
	{
		name: "Go: silence is not noticed", rule: "client rule 6",
		file: "internal/ssefollow/ssefollow.go", old: "		body.timeout = l.IdleTimeout\n",
		new: "		body.timeout = 1000 * l.IdleTimeout\n",
		pkg: "./client", run: "TestFollowIdle",
	},
	{
		name: "Go: a signal is sent twice", rule: "client rule 7",
		file: "client/call.go", old: "		if !again || r.once && !unsent(err) {\n",
		new: "		if !again {\n",
		pkg: "./client", run: "TestSignalIsNotSentTwice",
	},
	{
		name: "Go: a number in doubt is used again", rule: "client rule 7",
		file: "client/producer.go", old: "		p.epoch, p.seq = p.epoch+1, 0\n",
		new: "",
		pkg: "./client", run: "TestFailedServerFencesProducer|TestRefusalAfterLostAnswer",
	},
	{
		name: "Go: a gap is given where it was to be raised", rule: "client rule 8",
		file: "client/gap.go", old: "	case f.opts.OnGap == GapFail:\n",
		new: "	case false:\n",
		pkg: "./client", run: "TestFollowGap",
	},
	{
		name: "Go: the stream goes on before the fork", rule: "client rule 8",
		file: "client/gap.go", old: "		return event.Gap.Fork\n",
		new: "		return event.Cursor\n",
		pkg: "./client", run: "TestFollowGoesOnAtTheFork",
	},
	{
		name: "Go: redirects are followed", rule: "client rule 10",
		file: "client/client.go", old: "error { return http.ErrUseLastResponse }",
		new: "error { return nil }",
		pkg: "./client", run: "TestRedirectsAreNotFollowed",
	},
	{
		name: "Go: a gap before the position is taken", rule: "G2, client rule 8",
		file: "client/connection.go", old: "		if f.track.isBehind(&event) {\n", new: "		if false {\n",
		pkg: "./internal/clienttest", run: "TestGoClientsPass",
	},
	{
		name: "Go: Content-Encoding: none is unknown", rule: "client rule 14",
		file: "internal/ssefollow/coding.go", old: `case "", "identity", "none":`, new: `case "", "identity":`,
		pkg: "./internal/clienttest", run: "TestGoClientsPass",
	},
	{
		name: "Go: a content type ends with its parameters", rule: "client rule 11",
		file: "internal/problem/wire.go", old: `strings.IndexAny(kind, ";,")`, new: `strings.IndexAny(kind, "?")`,
		pkg: "./client", run: "TestContentTypeMayHaveAnyParameters",
	},
	{
		name: "Go: a poll at an older server ends a loop", rule: "client rule 16",
		file: "client/held.go", old: "!h.polls() || p.Code != problem.CodeInvalid {",
		new: "true || p.Code != problem.CodeInvalid {",
		pkg: "./client", run: "TestPollAtAnOlderServerIsGivenUp",
	},
	{
		name: "a change of retention leaves the age out", rule: "go doc ./client RetentionChange",
		file: "client/stream.go", old: "`json:\"max_age,omitempty\"`",
		new: "`json:\"-\"`",
		pkg: "./client", run: "TestStreamsOfTheRealServer",
	},
	{
		name: "a quota that is not counted is taken", rule: "go doc ./internal/quota",
		file: "internal/quota/parse.go", old: "names != nil && !slices.Contains(names, q)",
		new: "false && !slices.Contains(names, q)",
		pkg: "./internal/quota", run: "TestParseTenants",
	},
}
