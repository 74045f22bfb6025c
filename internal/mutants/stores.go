//go:build unix

package main

const conformance = "TestConformance/"

// storeMutants are faults in memstore, one for each "must" that package storetest checks without a crash.
var storeMutants = []mutant{
	{
		name: "the keys of a stream that is made with its end stay in Redis", rule: "docs/internals/storage-redis.md",
		file: "store/redisstore/create.lua", old: "if ARGV[7] ~= '' then", new: "if false then",
		pkg: "./store/redisstore", run: "TestKeysOfEndedStreamsExpire",
	},
	{
		name: "the keys of a stream do not follow a changed expiry", rule: "docs/internals/storage-redis.md",
		file: "store/redisstore/configure.lua", old: "if ARGV[9] ~= '' then", new: "if false then",
		pkg: "./store/redisstore", run: "TestKeysOfEndedStreamsExpire",
	},
	{
		name: "nats appends behind what another start has lost", rule: "G3, G6",
		file: "store/natsstore/append.go", old: ", item.last != nil && item.last.server != at.server:",
		new: ":",
		pkg: "./store/natsstore", run: "TestAppendBehindLostEventsIsRefusedAtTheSameSequence",
	},
	{
		name: "sqlite empties its log only when a backup is over", rule: "a call waits for 10 s at most",
		file: "store/sqlitestore/open.go", old: "	conn.SetBusyTimeout(100 * time.Millisecond)\n",
		new: "	_ = time.Second\n",
		pkg: "./store/sqlitestore", run: "TestCheckpointDoesNotWaitForReaders",
	},
	{
		name: "nats takes a cluster for one server while there is no connection",
		rule: "Read: a stream that has lost nothing keeps its epoch",
		file: "store/natsstore/wire.go", old: "	if name != \"\" || w.nc.ConnectedServerId() != \"\" &&",
		new: "	if true ||",
		pkg: "./store/natsstore", run: "TestClusterRecordsNoStartWhileDisconnected",
	},
	{
		name: "nats deletes the mark of the start before",
		rule: "a Store that may have lost acknowledged events must put the stream into another epoch",
		file: "store/natsstore/boot.go", old: `" " + id), server: id}}`, new: `" " + id), alone: true, server: id}}`,
		pkg: "./store/natsstore", run: "TestLostMarkOfStartChangesEpoch",
	},
	{
		name: "nats leaves a window in a hole",
		rule: "Read: batches must cover everything from Earliest on",
		file: "store/natsstore/read.go", old: "		mended, failed := mend(ctx, key, last)",
		new: "		mended, failed := false, error(nil)",
		pkg: "./store/natsstore", run: "TestPurgeWithoutMoveOfWindowMovesIt",
	},
	{
		name: "nats moves a window whose rest has a hole",
		rule: "Read: batches must be without a hole",
		file: "store/natsstore/mend.go", old: "|| !whole ||", new: "||",
		pkg: "./store/natsstore", run: "TestPurgeWithoutMoveOfWindowMovesIt",
	},
	{
		name: "nats checks only streams that lists show",
		rule: "Check: a sentence for each fault",
		file: "store/natsstore/check.go", old: "		if !st.gone && !listed[key] {", new: "		if false {",
		pkg: "./store/natsstore", run: "TestRecordOfAnotherStreamIsNeitherShownNorRemoved",
	},
	{
		name: "nats takes a window that a full server cannot move for damage",
		rule: "errors must say what can be tried again",
		file: "store/natsstore/mend.go", old: "		return false, unavailable(errNotRenewed)",
		new: "		_ = errNotRenewed\n		return false, nil",
		pkg: "./store/natsstore", run: "TestWindowThatFullServerCannotMoveIsUnavailable",
	},
	{
		name: "nats purges everything before the newest message",
		rule: "G3: a loss of the newest events must be told",
		file: "store/natsstore/tidy.go", old: "	case len(last.skips) > 0:", new: "	case false:",
		pkg: "./store/natsstore", run: "TestPurgeOfAllWithoutTrimLeavesStream",
	},
	{
		name: "nats takes a record of another life for that of a stream",
		rule: "Create: must return the stream as it is kept",
		file: "store/natsstore/record.go", old: "slices.ContainsFunc(st.lineage, ofIt)))",
		new: "slices.ContainsFunc(st.lineage, ofIt) || true))",
		pkg: "./store/natsstore", run: "TestRecordOfLostStreamIsNotShownForLaterOne",
	},
	{
		name: "nats removes the record of a later stream of the same name",
		rule: "List: streams must each appear exactly once",
		file: "store/natsstore/tidy.go", old: "err != nil || !r.fits(key, st) {",
		new: "err != nil {\n			_ = r",
		pkg: "./store/natsstore", run: "TestRemovalLeavesRecordOfLaterStreamOfSameName",
	},
	{
		name: "nats keeps an expired stream whose record is lost",
		rule: "Sweep: removes expired streams",
		file: "store/natsstore/sweep.go", old: "	case errors.Is(err, errGone), errors.Is(err, errForeign):",
		new: "	case false:",
		pkg: "./store/natsstore", run: "TestExpiredStreamWithoutItsRecordIsSwept",
	},
	{
		name: "nats mends what it checks",
		rule: "Check: a sentence for each fault",
		file: "store/natsstore/check.go", old: "		return s.read(ctx, key, after, maxBytes, leave)",
		new: "		_ = leave\n		return s.Read(ctx, key, after, maxBytes)",
		pkg: "./store/natsstore", run: "TestPurgeWithoutMoveOfWindowMovesIt",
	},
	{
		name: "nats shows the record of another stream",
		rule: "Create: must return the stream as it is kept",
		file: "store/natsstore/create.go",
		old: "		if msg.Header.Get(headerSubject) != s.subjects.index(key) {\n" +
			"			return reprise.StreamInfo{}, errOfAnother(key)\n		}\n" +
			"		if r, err = decodeRecord(key, msg.Data); err != nil {\n" +
			"			return reprise.StreamInfo{}, s.explain(key, err)\n		}\n" +
			"		if !r.fits(key, st) {",
		new: "		if r, err = decodeRecord(key, msg.Data); err != nil {",
		pkg: "./store/natsstore", run: "TestRecordOfAnotherStreamIsNeitherShownNorRemoved",
	},
	{
		name: "nats removes the record of another stream",
		rule: "List: streams must each appear exactly once",
		file: "store/natsstore/tidy.go",
		old: "		if err != nil || answer.Message.Subject != t.s.subjects.index(key) {\n			return err\n		}\n" +
			"		if r, err := decodeRecord(key, answer.Message.Data); err != nil || !r.fits(key, st) {",
		new: "		if err != nil {\n			return err\n		}\n" +
			"		if _, err := decodeRecord(key, answer.Message.Data); err != nil {",
		pkg: "./store/natsstore", run: "TestRecordOfAnotherStreamIsNeitherShownNorRemoved",
	},
	{
		name: "nats deletes by the sequences of another start", rule: "G1, G3: a stream has no holes",
		file: "store/natsstore/fetch.go", old: "	if server == \"\" {\n		return s.request(",
		new: "	if server != noServer {\n		return s.request(",
		pkg: "./store/natsstore", run: "TestPurgeIsForTheServerThatItsSequencesAreOf",
	},
	{
		name: "create makes the stream again", rule: "Create: if the stream exists it must return the existing one; exactly one must create",
		file: "store/memstore/store.go", old: "if st := s.streams[info.Key]; st != nil {", new: "if st := s.streams[info.Key]; st != nil && st.info.Tail > 0 {",
		pkg: "./store/memstore", run: conformance + "create/(same|concurrent)",
	},
	{
		name: "create compares no configuration", rule: "Create: with another configuration it must return ErrConflict",
		file: "store/memstore/store.go", old: "if !st.info.Config.Equal(info.Config) {", new: "if false {",
		pkg: "./store/memstore", run: conformance + "create",
	},
	{
		name: "the batch of a new stream is left out", rule: "CreateAppend: must make the stream with the batch or not at all",
		file: "store/memstore/store.go", old: "	if first != nil {\n", new: "	if false {\n",
		pkg: "./store/memstore", run: conformance + "create_with_a_batch",
	},
	{
		name: "the rows of a new stream are two commits", rule: "CreateAppend: must make the stream with the batch or not at all",
		file: "store/sqlitestore/create.go", old: "		if err != nil || first == nil {\n",
		new: "		if true {\n",
		pkg: "./store/sqlitestore", run: "TestStore/create_with_a_batch",
	},
	{
		name: "a new stream is stored in clear", rule: "a wrapper takes part in CreateAppend",
		file: "store/storewrap/encrypt.go", old: "	if err := e.sealRequest(&first); err != nil {\n",
		new: "	if err := error(nil); err != nil {\n",
		pkg: "./store/storewrap", run: "TestNewStreamsAreWrapped",
	},
	{
		name: "copied stream begins with 1",
		rule: "Create: must return the stream as it is kept",
		file: "store/memstore/store.go",
		old:  "Earliest: info.Tail + 1, Tail: info.Tail,",
		new:  "Earliest: 1, Tail: info.Tail,",
		pkg:  "./store/memstore",
		run:  conformance + "create",
	},
	{
		name: "create forgets the owner",
		rule: "Create: must return the stream as it is kept",
		file: "store/memstore/store.go",
		old:  "Created: info.Created, Owner: info.Owner,",
		new:  "Created: info.Created,",
		pkg:  "./store/memstore",
		run:  conformance + "owners",
	},
	{
		name: "name of an expired stream stays taken", rule: "Create: the name of an expired stream must be free again",
		file: "store/memstore/store.go", old: "	s.marks.forget(info.Key)\n	if len",
		new: "	if s.marks.has(info.Key, time.Now()) {\n		return reprise.StreamInfo{}, reprise.ErrConflict\n	}\n	if len",
		pkg: "./store/memstore", run: conformance + "create/expired",
	},
	{
		name: "append answers errors that are nil", rule: "Append: must return nil if all were stored",
		file: "store/memstore/append.go", old: "	var errs []error\n", new: "	errs := make([]error, len(reqs))\n",
		pkg: "./store/memstore", run: conformance + "append/batches",
	},
	{
		name: "append minds no epoch", rule: "Append: must be refused with ErrNotFound",
		file: "store/memstore/append.go", old: "if st == nil || st.info.Epoch != req.Epoch {", new: "if st == nil {",
		pkg: "./store/memstore", run: conformance + "append/refused",
	},
	{
		name: "append minds no owner",
		rule: "Append: must be refused with ErrFenced",
		file: "store/memstore/append.go",
		old:  "if newOwner && req.Owner.Fence <= info.Owner.Fence || info.End",
		new:  "if info.End",
		pkg:  "./store/memstore",
		run:  conformance + "owners",
	},
	{
		name: "append minds no end", rule: "Append: must be refused with ErrEnded",
		file: "store/memstore/append.go", old: " || info.End != nil || req.First", new: " || req.First",
		pkg: "./store/memstore", run: conformance + "end",
	},
	{
		name: "append minds no seq", rule: "Append: must be refused with ErrConflict",
		file: "store/memstore/append.go", old: "req.First != info.Tail+1 ||\n", new: "\n",
		pkg: "./store/memstore", run: conformance + "append/refused",
	},
	{
		name: "append minds no revision", rule: "Append: must be refused with ErrConflict",
		file: "store/memstore/append.go", old: "		req.Revision != info.Revision {", new: "		false {",
		pkg: "./store/memstore", run: conformance + "configure/append_refused",
	},
	{
		name: "a change of the configuration keeps the expiry",
		rule: "Create: must get info.Config, info.Revision and the Expires of info.End",
		file: "store/memstore/configure.go", old: "		end.Expires = want.End.Expires\n", new: "",
		pkg: "./store/memstore", run: conformance + "configure/ended",
	},
	{
		name: "sqlite replays an end with the expiry before",
		rule: "Create: must get the Expires of info.End",
		file: "store/sqlitestore/configure.go",
		old:  "		if err := w.fold(st, st.pending); err != nil {\n			return err\n		}\n",
		new:  "",
		pkg:  "./store/sqlitestore", run: "TestStoreKeepsContract/configure/crash",
	},
	{
		name: "sqlite keeps labels of streams that are gone", rule: "docs/storage-sqlite.md: tables",
		file: "store/sqlitestore/indexes.sql", old: "AFTER DELETE ON streams WHEN old.config <> CAST('{}' AS BLOB) BEGIN",
		new: "AFTER DELETE ON streams WHEN 0 BEGIN", pkg: "./store/sqlitestore", run: "TestFileGetsIndexes",
	},
	{
		name: "sqlite finds streams by the labels that they had", rule: "docs/storage-sqlite.md: tables",
		file: "store/sqlitestore/indexes.sql", old: "AFTER UPDATE OF config ON streams BEGIN",
		new: "AFTER UPDATE OF config ON streams WHEN 0 BEGIN", pkg: "./store/sqlitestore", run: "TestFileGetsIndexes",
	},
	{
		name: "sqlite looks at each stream for a label", rule: "G3: lists",
		file: "store/sqlitestore/list.go", old: "	if byLabels && len(q.Labels) > 0 {", new: "	if false {",
		pkg: "./store/sqlitestore", run: "TestListsAreFoundByIndexes",
	},
	{
		name: "sqlite looks up any of several labels", rule: "G3: lists",
		file: "store/sqlitestore/list.go", old: "		if number < fewest {",
		new: "		if number < fewest && false {",
		pkg: "./store/sqlitestore", run: "TestListsAreFoundByIndexes",
	},
	{
		name: "the log sweeps by the expiry before", rule: "Sweep removes streams whose End.Expires is not after now",
		file: "store/logstore/configure.go", old: "	s.queue.add(dueOf(st))\n", new: "",
		pkg: "./store/logstore", run: "TestStoreKeepsContract/configure/swept",
	},
	{
		name: "redis minds no revision", rule: "Append: must be refused with ErrConflict",
		file: "store/redisstore/append.lua", old: " or (st[6] or '0') ~= ARGV[a + 8] then", new: " then",
		pkg: "./store/redisstore", run: "TestStoreKeepsContract/configure/shared",
	},
	{
		name: "nats minds no revision", rule: "Append: must be refused with ErrConflict",
		file: "store/internal/driver/driver.go", old: "	case req.Revision != info.Revision:", new: "	case false:",
		pkg: "./store/natsstore", run: "TestStoreKeepsContract/configure/shared",
	},
	{
		name: "nats forgets the configuration at the next append",
		rule: "Create: the stream must get info.Config",
		file: "store/natsstore/append.go", old: "		revision: last.revision, config: last.config, bulky:",
		new: "		bulky:",
		pkg: "./store/natsstore", run: "TestStoreKeepsContract/configure/changed",
	},
	{
		name: "append sees the end before the owner", rule: "Append: must be refused in this order",
		file: "store/internal/driver/driver.go", old: "	case req.Owner != info.Owner && req.Owner",
		new: "	case info.End == nil && req.Owner != info.Owner && req.Owner",
		pkg: "./store/memstore", run: conformance + "owners/order",
	},
	{
		name: "append goes on in a stream that is gone", rule: "Append: refused with ErrNotFound if the stream does not exist",
		file: "store/memstore/append.go", old: "return !st.gone && st.append(req)", new: "return st.append(req)",
		pkg: "./store/memstore", run: "TestAppendToLastStreamThatIsGone",
	},
	{
		name: "append leaves the stream to the old owner", rule: "Append: an Owner with a higher Fence must become that of the stream",
		file: "store/memstore/append.go", old: "		info.Owner = req.Owner\n", new: "",
		pkg: "./store/memstore", run: conformance + "owners/taken over",
	},
	{
		name: "append refuses all for one",
		rule: "Append: each request must be stored whole or not at all",
		file: "store/memstore/append.go",
		old:  "			errs = driver.Refuse(errs, len(reqs), i, err)\n",
		new:  "			errs = driver.Refuse(errs, len(reqs), i, err)\n			break\n",
		pkg:  "./store/memstore",
		run:  conformance + "append/some refused",
	},
	{
		name: "append writes behind the bytes", rule: "Append: must not change the Bytes",
		file: "store/memstore/append.go", old: "	st.history.trim(info.Earliest)\n", new: "	st.history.trim(info.Earliest)\n	if b := req.Bytes[:cap(req.Bytes)]; len(b) > len(req.Bytes) {\n		b[len(req.Bytes)] ^= 0xff\n	}\n",
		pkg: "./store/memstore", run: conformance + "append/bytes unchanged",
	},
	{
		name: "append counts what is no longer kept", rule: "AppendRequest.Earliest: events before it must not be counted",
		file: "store/memstore/append.go", old: "	info.Earliest = max(info.Earliest, req.Earliest)\n", new: "",
		pkg: "./store/memstore", run: conformance + "append/earliest",
	},
	{
		name: "producers are never forgotten", rule: "AppendRequest.Producers: of more the oldest must be forgotten",
		file: "store/internal/driver/driver.go", old: "if len(known) >= reprise.MaxProducers {", new: "if false {",
		pkg: "./store/memstore", run: conformance + "producers",
	},
	{
		name: "page goes on after maxBytes", rule: "Read: must stop after the first batch with which the page reaches maxBytes",
		file: "store/memstore/history.go", old: "size < maxBytes {", new: "size <= maxBytes {",
		pkg: "./store/memstore", run: conformance + "read/max bytes|TestPagesMatchModelOfBatches",
	},
	{
		name: "page begins with the batch after", rule: "Read: batches must cover everything",
		file: "store/memstore/history.go", old: "live[i].next() > from })", new: "live[i].next() > from+1 })",
		pkg: "./store/memstore", run: conformance + "read/positions|TestPagesMatchModelOfBatches",
	},
	{
		name: "page has what was trimmed",
		rule: "Read: batches must cover from max(after+1, Earliest) on",
		file: "store/memstore/store.go",
		old:  "st.history.read(max(after+1, st.info.Earliest), maxBytes)",
		new:  "st.history.read(after+1, maxBytes)",
		pkg:  "./store/memstore",
		run:  "TestPagesMatchModelOfBatches",
	},
	{
		name: "position beyond the tail gives events", rule: "Read: a position beyond the tail must give an empty page",
		file: "store/memstore/store.go", old: "if after < st.info.Tail && st.info.Earliest", new: "if after = min(after, max(st.info.Tail, 1)-1); st.info.Earliest",
		pkg: "./store/memstore", run: conformance + "read/beyond the tail",
	},
	{
		name: "list tells a stream on two pages", rule: "List: streams must each appear exactly once",
		file: "internal/listing/index.go", old: "		below = n\n", new: "		below = n + 1\n",
		pkg: "./store/memstore", run: conformance + "list",
	},
	{
		name: "list begins anew after nonsense",
		rule: "ListQuery.After: a text that no List returned must be refused",
		file: "internal/listing/index.go",
		old:  "if err != nil || n == 0 || n > newest || strconv.FormatUint(n, 10) != q.After {",
		new:  "if err != nil || n == 0 || n > newest {",
		pkg:  "./store/memstore",
		run:  conformance + "list/after nothing",
	},
	{
		name: "expired stream is listed", rule: "List: expired streams must not appear",
		file: "store/memstore/expiry.go", old: "		s.drop(st)\n", new: "		s.ending.queue.remove(st.expiry)\n		st.expiry = nil\n",
		pkg: "./store/memstore", run: conformance + "sweep",
	},
	{
		name: "remove wants something to remove", rule: "Remove: it must be idempotent",
		file: "store/memstore/store.go", old: "	case st == nil:\n		if spec", new: "	case st == nil:\n		return reprise.ErrNotFound\n	case false:\n		if spec",
		pkg: "./store/memstore", run: conformance + "remove",
	},
	{
		name: "removed stream leaves no mark", rule: "RemoveSpec.Remember: until then Read must answer ErrExpired",
		file: "store/memstore/store.go", old: "			s.marks.add(key, spec.Remember)\n", new: "",
		pkg: "./store/memstore", run: conformance + "remove",
	},
	{
		name: "mark lasts for ever", rule: "RemoveSpec.Remember: then ErrNotFound",
		file: "store/memstore/expiry.go", old: "return d != nil && d.at.After(now)", new: "return d != nil",
		pkg: "./store/memstore", run: conformance + "(remove|sweep)",
	},
	{
		name: "closed store goes on", rule: "Store: after Close all methods return ErrClosed",
		file: "store/memstore/store.go", old: "	s.closed = true\n	for", new: "	for",
		pkg: "./store/memstore", run: conformance + "close",
	},
	{
		name: "a cluster of Valkey is taken for one server", rule: "docs/internals/storage-redis.md",
		file: "store/redisstore/open.go", old: "cmp.Or(info[\"redis_mode\"], info[\"server_mode\"])",
		new: "cmp.Or(info[\"redis_mode\"])",
		pkg: "./store/redisstore", run: "TestModeOfTheServer",
	},
}
