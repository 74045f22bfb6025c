//go:build unix

package main

// rowMutants are repairs of promises that were once broken, each taken out. The rule is the row of the table in
// docs/internals/testing.md.
var rowMutants = []mutant{
	{
		name: "what comes with the end exceeds the quota", rule: "row 10: quotas hold every event but a lone end",
		file: "retention.go", old: " && len(c.events)-c.skip == 1", new: "",
		pkg: "./enginetest", run: "TestQuotaHoldsEventsBesideTheEnd",
	},
	{
		name: "a stream is measured in the lane of others",
		rule: "G7, row 4",
		file: "submit.go",
		old:  "		page, err := l.readLive(ctx, lv, from-1, measureBytes)\n",
		new: "		var page Page\n		err := lv.lane.exclusively(ctx, func() (err error) {\n" +
			"			page, err = l.readLive(ctx, lv, from-1, measureBytes)\n			return err\n		})\n",
		pkg: "./enginetest",
		run: "TestAppendDoesNotWaitForStoreOperationsOfOthers/append",
	},
	{
		name: "a store opens without its wrappers", rule: "row 7",
		file: "internal/marker/marker.go", old: "			change, err = c.compare(m.wrappers)\n",
		new: "			change, _ = c.compare(m.wrappers)\n",
		pkg: "./internal/storeurl", run: "TestStoreIsRefusedWithoutItsWrappers/sqlite",
	},
	{
		name: "a Log opens on a store without its wrappers", rule: "row 7",
		file: "log.go", old: "	if len(written.Wrappers) > 0 {\n", new: "	if false {\n",
		pkg: "./store/storewrap", run: "TestPartsHaveMarkersOfTheirOwn",
	},
	{
		name: "a key is made for what another one has encrypted", rule: "row 7",
		file: "internal/storeurl/storeurl.go", old: "	case !empty:\n", new: "	case !empty && !o.MakeKeys:\n",
		pkg: "./internal/storeurl", run: "TestStoreIsRefusedWithoutItsWrappers/sqlite",
	},
	{
		name: "a body that never comes holds its connection", rule: "row 8",
		file: "internal/httpserver/body.go",
		old:  "	if err := b.allow(b.pause); err != nil {", new: "	if err := b.cause; err != nil {",
		pkg: "./internal/httpserver", run: "TestAbsentBody",
	},
	{
		name: "what a refusal left unread is waited for", rule: "row 8",
		file: "internal/httpserver/body.go", old: "		_ = b.allow(linger)\n", new: "",
		pkg: "./internal/httpserver", run: "TestAbsentBody",
	},
	{
		name: "nobody gives way at the bound of connections", rule: "row 8",
		file: "internal/httpserver/limit.go", old: "	if old == nil && len(l.conns) > l.max {", new: "	if false {",
		pkg: "./internal/httpserver", run: "TestBoundClosesOldestUnauthenticatedConnection",
	},
	{
		name: "cursor below the fork is refused", rule: "row 9",
		file: "live.go", old: "!shared || c.Seq > fork {", new: "fork > 0 || !shared {",
		pkg: "./enginetest", run: "TestCursorAtOrBelowForkIsExact",
	},
	{
		name: "quotas count no labels", rule: "G7, row 10",
		file: "stream.go", old: "l.usage.add(whose, charge(&info))",
		new: "l.usage.add(whose, charge(&info).minus(amount{bytes: info.Overhead()}))",
		pkg: "./enginetest", run: "TestQuotaCountsStreamsBesideEvents/memory",
	},
	{
		name: "a list of large streams has no bound", rule: "G7, row 10",
		file: "usage.go", old: "left <= 0 || size >= listBytes {", new: "left <= 0 {",
		pkg: "./enginetest", run: "TestListsAreBoundedInBytes/memory",
	},
	{
		name: "a list of executions with large labels has no bound", rule: "G7, row 10",
		file: "internal/execution/list.go", old: " || size >= maxPageBytes {", new: " || size < 0 {",
		pkg: "./internal/execution", run: "TestListIsBoundedInBytes",
	},
	{
		name: "a page of executions lists a thousand streams", rule: "docs/internals/performance.md, G3",
		file: "internal/execution/list.go",
		old:  "		of.Limit = q.Limit // most", new: "		_ = q.Limit // most",
		pkg: "./internal/execution", run: "TestListReadsNoMoreThanItReturns",
	},
	{
		name: "a list has what a store does not leave out", rule: "decision 83",
		file: "usage.go", old: "if q.Takes(&part.Streams[i]) {", new: "if true {",
		pkg: "./enginetest", run: "TestListsHaveWhatIsAskedForAlone",
	},
	{
		name: "a page looks at all streams under the lock", rule: "decision 83",
		file: "internal/listing/index.go", old: "if looked >= maxLooked {", new: "if false {",
		pkg: "./internal/listing", run: "TestPagesLeaveOutWhatIsNotTaken",
	},
	{
		name: "labels are looked for among encrypted ones", rule: "decision 83",
		file: "store/storewrap/encrypt.go", old: "	q.Labels = nil // they", new: "	// they",
		pkg: "./store/storewrap", run: "TestEncryptedStoreKeepsContract",
	},
	{
		name: "a stream is ended as idle after an append", rule: "G4, row 10",
		file: "commit.go", old: "if c.unmoved != nil && (lv", new: "if false && (lv",
		pkg: "./enginetest", run: "TestAppendPreventsAnIdleEnd|TestAppendOfTheSameCommitPreventsAnIdleEnd",
	},
	{
		name: "an append of the same commit does not prevent an idle end", rule: "G4, row 10",
		file: "commit.go", old: "st.first+uint64(st.count) != c.unmoved.tail+1", new: "lv.info.Tail != c.unmoved.tail",
		pkg: "./enginetest", run: "TestAppendOfTheSameCommitPreventsAnIdleEnd",
	},
	{
		name: "streams of owners count as idle", rule: "row 10",
		file: "sweep.go", old: "info.End != nil || info.Owner != (Owner{}) || ", new: "info.End != nil || ",
		pkg: "./enginetest", run: "TestWhoIsNeverIdle",
	},
	{
		name: "the time of an old event ends a stream that is used", rule: "row 10",
		file: "sweep.go", old: "	case !moved || !at.Before(s.seen):", new: "	default:",
		pkg: "./enginetest", run: "TestEventsOfThePastEndNoStream",
	},
	{
		name: "a stream is ended as idle that the Log has just seen for the first time", rule: "row 10",
		file: "sweep.go", old: "s.seen.Add(min(bound, idleSeen))", new: "s.seen",
		pkg: "./enginetest", run: "TestIdlenessOutlivesARestart",
	},
	{
		name: "a replica ends no stream of which it has seen an older state", rule: "row 10",
		file: "sweep.go", old: "if err == nil && l.Shared() {", new: "if false {",
		pkg: "./enginetest", run: "TestIdleStreamOfADeadReplica",
	},
	{
		name: "an event that is young enough expires with an older one", rule: "decision 75",
		file: "retention.go", old: "				case e.Time.After(limit):",
		new: "				case e.Seq > info.Tail:",
		pkg: "./enginetest", run: "TestEventsOfOpenStreamExpire|TestAgeOfEventsOutlivesARestart",
	},
	{
		name: "the age of events is judged once", rule: "decision 75",
		file: "retention.go", old: "	return oldest.Add(bound), nil", new: "	return oldest.Add(99 * bound), nil",
		pkg: "./enginetest", run: "TestEventsOfOpenStreamExpire",
	},
	{
		name: "a changed bound waits for a restart", rule: "decision 75",
		file: "catchup.go", old: "	log.idle.forget(lv.key)\n	log.noteIdle(&lv.info)\n", new: "",
		pkg: "./enginetest", run: "TestChangedBoundsCountAtOnce",
	},
	{
		name: "calls of clients that never come back are closed", rule: "decision 76",
		file: "mcp/mcphttp/response.go", old: "age != 0 || !s.resumes.Load() {", new: "age != 0 {",
		pkg: "./mcp/mcphttp", run: "TestResponsesHaveAge",
	},
	{
		name: "calls of clients that have come back are never closed", rule: "decision 76",
		file: "mcp/mcphttp/serve.go", old: "		s.resumes.Store(true)\n", new: "",
		pkg: "./mcp/mcphttp", run: "TestResponsesHaveAge",
	},
	{
		name: "an image goes unsaid", rule: "docs/mcp-tools.md",
		file: "internal/mcpserver/interpreter.go",
		old:  "ok && isImage(kind) {", new: "ok && isImage(kind) && !isText {",
		pkg: "./internal/mcpserver", run: "TestImagesOfInterpreter",
	},
	{
		name: "images have no bound", rule: "docs/mcp-tools.md",
		file: "internal/mcpserver/interpreter.go", old: "i.bytes+len(data) <= mostImageBytes {", new: "true {",
		pkg: "./internal/mcpserver", run: "TestImagesOfInterpreter",
	},
	{
		name: "calls that change something are sent again", rule: "docs/mcp-hosts.md",
		file: "internal/mcpserver/relay/post.go",
		old:  "		return b.reads[params.Name]\n", new: "		return params.Name != \"\"\n",
		pkg: "./internal/mcpserver/relay", run: "TestReadsAreSentAgain",
	},
	{
		name: "a window whose holder was stopped hangs", rule: "docs/mcp-hosts.md",
		file: "internal/mcpserver/relay/post.go", old: "func() { stop(errSilent) })", new: "func() {})",
		pkg: "./internal/mcpserver/relay", run: "TestStoppedServerIsNamed",
	},
	{
		name: "calls that only read are not sent again", rule: "docs/mcp-hosts.md",
		file: "internal/mcpserver/relay/post.go", old: "reads && sent < maxSent)", new: "reads && sent < 1)",
		pkg: "./internal/mcpserver/relay", run: "TestReadsAreSentAgain",
	},
	{
		name: "a session is not resumed by Mcp-Last-Event-Id", rule: "docs/compatibility.md",
		file: "mcp/mcphttp/serve.go",
		old:  "cmp.Or(r.Header.Get(headerEventID), r.Header.Get(headerResume))",
		new:  "cmp.Or(r.Header.Get(headerEventID))",
		pkg:  "./mcp/mcphttp", run: "TestResumeByMcpLastEventID",
	},
	{
		name: "last_event_id null is no last_event_id", rule: "docs/mcp-tools.md",
		file: "internal/mcpserver/arguments.go",
		old:  "	e.given = true\n",
		new:  "",
		pkg:  "./internal/mcpserver", run: "TestSandboxShapes",
	},
	{
		name: "ended background processes go unsaid", rule: "docs/mcp-tools.md",
		file: "internal/mcpserver/request.go",
		old:  "	if processes == 0 {",
		new:  "	if processes >= 0 {",
		pkg:  "./internal/mcpserver", run: "TestEndedBackgroundProcessesAreNamed",
	},
	{
		name: "tools ignore how much is to be kept", rule: "docs/mcp-tools.md",
		file: "internal/mcpserver/request.go", old: ", Retention: in.Kept.Retention,", new: ",",
		pkg: "./internal/mcpserver", run: "TestRetentionOfTool",
	},
	{
		name: "a reader of a removed stream is not told", rule: "docs/compatibility.md",
		file: "sse/ssehttp/conn.go", old: "		last = removedBlock\n", new: "		last = \"\"\n",
		pkg: "./sse/ssehttp", run: "TestRemovedStreamEndsResponse",
	},
	{
		name: "a close event comes at a shutdown too", rule: "docs/compatibility.md",
		file: "sse/ssehttp/conn.go", old: `(last != "" || errors.Is(why, reprise.ErrEnded))`, new: "why != nil",
		pkg: "./sse/ssehttp", run: "TestCloseEventIsTheLast",
	},
	{
		name: "a trim takes the event after the cursor too", rule: "docs/protocol.md, streams of your own",
		file: "internal/api/streams.go", old: "reader.Cursor().Seq + 1", new: "reader.Cursor().Seq + 2",
		pkg: "./internal/api", run: "TestTrimRemovesOldestEvents",
	},
	{
		name: "a full disk is not told apart", rule: "row 11",
		file: "store/sqlitestore/errors.go", old: `fmt.Errorf("%w: %w", reprise.DiskFull, err)`,
		new: `fmt.Errorf("%w: %w", reprise.ErrUnavailable, err)`,
		pkg: "./store/sqlitestore", run: "TestFullDisk",
	},
	{
		name: "the cause of an outage is told with each append", rule: "row 11",
		file: "errors.go", old: "	if _, told := o.told[cause]; told {\n		return\n	}\n", new: "",
		pkg: "./enginetest", run: "TestOutageIsLoggedOnceForEachCause",
	},
	{
		name: "a login page ends what was met before", rule: "row 12, client rule 5",
		file: "client/foreign.go", old: "	if !met || !isForeign(err) {", new: "	if met || !isForeign(err) {",
		pkg: "./client", run: "TestFollowOutlastsForeignAnswersInMidRun",
	},
	{
		name: "a missing start is no gap", rule: "G1, row 12, client rule 8",
		file: "client/gap.go", old: "f.track.filtered || first.Seq <= 1 {", new: "f.track.filtered || first.Seq > 1 {",
		pkg: "./client", run: "TestMissingStartIsAGap",
	},
	{
		name: "lost output exits with the code of the command", rule: "G1, row 12",
		file: "cmd/reprise/loss.go", old: "	if l.gaps == 0 || end != nil && !ok {", new: "	if l.gaps >= 0 {",
		pkg: "./cmd/reprise", run: "TestLossIsNeverExitZero",
	},
	{
		name: "a Ctrl-C before the start is followed by the start", rule: "row 12",
		file: "cmd/reprise/interrupt.go", old: "	case errors.Is(err, reprise.ErrNotFound) && !c.started.Load():\n",
		new: "	case false:\n",
		pkg: "./cmd/reprise", run: "TestInterruptEndsRunThatIsNotStarted",
	},
	{
		name: "a cursor is saved for each event", rule: "row 12",
		file: "client/saver.go", old: "	if s.untilDue() > 0 {\n", new: "	if s.untilDue() > s.every {\n",
		pkg: "./client", run: "TestCursorIsSavedEvery100Milliseconds",
	},
	{
		name: "removed streams keep their space", rule: "row 13",
		file: "store/sqlitestore/fold.go", old: "	more, err := s.writer.shrink()\n",
		new: "	more, err := false, error(nil)\n",
		pkg: "./store/sqlitestore", run: "TestRemovedStreamsGiveTheirSpaceBack",
	},
	{
		name: "line separators stay in JSON", rule: "row 14",
		file: "event.go", old: "	if ascii || !hasSeparator(e.Data) {", new: "	if ascii || true {",
		pkg: "./enginetest", run: "TestSeparatorsAreEscaped",
	},
	{
		name: "a heartbeat is a block of its own", rule: "row 14",
		file: "sse/ssehttp/form.go", old: `append(dst, ":\n"...)`, new: `append(dst, ":\n\n"...)`,
		pkg: "./sse/ssehttp", run: "TestHeartbeatAfterSilence$",
	},
	{
		name: "a server without its store exits", rule: "row 15",
		file: "internal/node/front.go",
		old:  "		case !storeurl.IsRemote(n.Store) || !errors.Is(err, reprise.ErrUnavailable):\n",
		new:  "		case storeurl.IsRemote(n.Store) || !errors.Is(err, reprise.ErrUnavailable):\n",
		pkg:  "./cmd/reprise", run: "TestServeWaitsForItsStore/redis",
	},
	{
		name: "a call under way at Close is hurried from its first try", rule: "row 16",
		file: "store/storewrap/retry.go", old: "		hurried := last != nil && r.isClosing()\n		err := f(bounded)\n",
		new: "		err := f(bounded)\n		hurried := r.isClosing()\n",
		pkg: "./store/storewrap", run: "TestCloseAllowsOneMoreTry",
	},
	{
		name: "an id that somebody has chosen is found by its beginning", rule: "reprise --help",
		file: "cmd/reprise/internal/ids/ids.go", old: "len(id) != generatedID || !isRandom(id) || ", new: "",
		pkg: "./cmd/reprise", run: "TestScripts/names",
	},
	{
		name: "what begins with a name is not told from what is called so", rule: "reprise --help",
		file: "cmd/reprise/remove.go", old: "err == nil && whole != name", new: "false",
		pkg: "./cmd/reprise", run: "TestScripts/names",
	},
	{
		name: "lines of JSON are text", rule: "reprise --help",
		file: "cmd/reprise/publish.go", old: "(line[0] == '{' || line[0] == '[')", new: "line[0] == '{'",
		pkg: "./cmd/reprise", run: "TestScripts/names",
	},
	{
		name: "the current context goes before REPRISE_URL", rule: "reprise login --help",
		file: "cmd/reprise/contexts.go", old: "	case c.Context == \"\" && (c.URL", new: "	case false && (c.URL",
		pkg: "./cmd/reprise", run: "TestScripts/contexts",
	},
	{
		name: "tokens are read from a file of all", rule: "reprise login --help",
		file: "cmd/reprise/internal/contexts/contexts.go",
		old:  "case datadir.OthersMayRead", new: "case false && datadir.OthersMayRead",
		pkg: "./cmd/reprise", run: "TestScripts/contexts",
	},
	{
		name: "a token that is refused is kept", rule: "reprise login --help",
		file: "cmd/reprise/contexts.go", old: "answer.Body.Close()\n	}\n	if err != nil {",
		new: "answer.Body.Close()\n	}\n	if false {",
		pkg: "./cmd/reprise", run: "TestScripts/contexts",
	},
}
