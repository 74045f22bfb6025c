package clienttest_test

// What the clients for TypeScript and Python call the schemas and operations of openapi.yaml. What is added there
// belongs here, and then into both clients; or below, with the reason why no client has it.

// unknownSchemas are in no client.
var unknownSchemas = map[string]string{
	"Drain": operators, "DrainRequest": operators,
	"Boundary": operators, "Server": operators, "KeptRequest": operators,
	"AuditCheck": operators, "AuditRecord": operators, "CheckLine": operators, "Checked": operators,
	"Health": operators, "Artifact": inMembers, "QuotaOf": inMembers,
	"QuotaLimits": "an object of numbers", "QuotaName": text,
	"MCPCall": operators, "MCPCallPage": operators, "MCPSession": operators, "MCPSessionPage": operators,
	"StoreAdvice": operators, "StoreStats": operators,
	"Swept":        operators,
	"TenantSize":   operators,
	"LoginRequest": "clients send the token", "Login": "clients send the token",
	"FlowRequest": "clients send the token", "Flow": "clients send the token", "Providers": "clients send the token",
	"CursorEvent": encoding, "CursorMove": encoding, "Event": encoding, "EventLine": encoding,
	"EventPiece": encoding, "EventStream": encoding,
	"Payload": encoding, "Numbered": encoding, "PublishRequest": "one of two that are known",
	"Cursor": text, "Duration": text, "ETag": text, "EventType": text, "FileMode": text, "FilePath": text,
	"Grant": text, "ID": text, "NextCursor": text, "Position": text, "SHA256": text, "StreamName": text, "Time": text,
	"Wait":    text,
	"Expired": encoding, "Flag": text, "Seq": "a number", "Labels": "an object of texts",
	"TrimRequest":     "clients take its member as a parameter",
	"Acknowledgement": goAlone, "Proof": goAlone,
	"ExecutionOutcome": inMembers, "ExecutionStatus": inMembers, "FileType": inMembers, "StreamOutcome": inMembers,
}

const (
	operators = "for those who operate a server, by reprise or the console"
	encoding  = "how an event is written, which the tests of events cover"
	text      = "a text"
	inMembers = "compared where a member has it"
	goAlone   = "the Go client alone asks for it"
)

// unknownOperations are in no client.
var unknownOperations = map[string]string{
	"backupStore": operators, "checkAudit": operators, "checkStore": operators, "endMCPSession": operators,
	"drain": operators, "showDrain": operators, "healthz": operators, "listMCPCalls": operators,
	"listMCPSessions": operators, "metrics": operators, "openAPI": operators,
	"readAudit": operators, "readSeveral": "the console's tabs; loops of clients share a stream",
	"readyz": operators, "showMCPSession": operators, "storeStats": operators, "sweepStore": operators,
	"proveServer": goAlone, "showServer": operators, "showRequest": operators,
	"login": "clients send the token", "logout": "clients send the token",
	"listProviders": "clients send the token", "beginFlow": "clients send the token",
}

// unknownParameters are sent by no client.
var unknownParameters = map[string]bool{
	"cursors":      true, // a block of its own moves the cursor
	"expected_seq": true, // a producer numbers its own appends
	"ticket":       true, // the client for Python sends the token
}

// operations has the methods of both clients, TypeScript's first.
var operations = map[string][2]string{
	"addKey":               {"Keys.create", "AsyncKeys.create"},
	"addSchedule":          {"Schedules.create", "AsyncSchedules.create"},
	"addWebhook":           {"Webhooks.create", "AsyncWebhooks.create"},
	"cancelExecution":      {"Reprise.cancel", "AsyncReprise.cancel"},
	"cancelTask":           {"Tasks.cancel", "AsyncTasks.cancel"},
	"createStream":         {"Streams.create", "AsyncStreams.create"},
	"configureStream":      {"Streams.configure", "AsyncStreams.configure"},
	"configureExecution":   {"Reprise.configure", "AsyncReprise.configure"},
	"disableSchedule":      {"Schedules.disable", "AsyncSchedules.disable"},
	"enableSchedule":       {"Schedules.enable", "AsyncSchedules.enable"},
	"enableWebhook":        {"Webhooks.enable", "AsyncWebhooks.enable"},
	"endStream":            {"Producer.end", "AsyncProducer.end"},
	"interruptInterpreter": {"Interpreters.interrupt", "AsyncInterpreters.interrupt"},
	"issueTicket":          {"Tickets.create", "AsyncTickets.create"},
	"limitKey":             {"Admin.limitKey", "AsyncKeys.limit"},
	"listExecutions":       {"Reprise.list", "AsyncReprise.list"},
	"listFiles":            {"Files.list", "AsyncFiles.list"},
	"listInterpreters":     {"Interpreters.list", "AsyncInterpreters.list"},
	"listKeys":             {"Keys.list", "AsyncKeys.list"},
	"listReplicas":         {"Replicas.list", "AsyncReplicas.list"},
	"listSchedules":        {"Schedules.list", "AsyncSchedules.list"},
	"listSessions":         {"Sessions.list", "AsyncSessions.list"},
	"listStreams":          {"Streams.list", "AsyncStreams.list"},
	"listTasks":            {"Tasks.list", "AsyncTasks.list"},
	"trimStream":           {"Streams.trim", "AsyncStreams.trim"},
	"listWebhooks":         {"Webhooks.list", "AsyncWebhooks.list"},
	"makeDirectory":        {"Files.makeDirectory", "AsyncFiles.make_directory"},
	"moveFile":             {"Files.move", "AsyncFiles.move"},
	"openInterpreter":      {"Interpreters.open", "AsyncInterpreters.open"},
	"publish":              {"Producer.publish", "AsyncProducer.publish"},
	"readArtifact":         {"Reprise.artifact", "AsyncReprise.artifact"},
	"readExecutionEvents":  {"Reprise.follow", "AsyncReprise.follow"},
	"readFile":             {"Files.download", "AsyncFiles.download"},
	"readScreen":           {"Reprise.screen", "AsyncReprise.screen"},
	"readStderr":           {"Reprise.output", "AsyncReprise.output"},
	"readStdout":           {"Reprise.output", "AsyncReprise.output"},
	"readStreamEvents":     {"Streams.follow", "AsyncStreams.follow"},
	"removeExecution":      {"Reprise.remove", "AsyncReprise.remove"},
	"removeFile":           {"Files.remove", "AsyncFiles.remove"},
	"removeInterpreter":    {"Interpreters.remove", "AsyncInterpreters.remove"},
	"removeSchedule":       {"Schedules.remove", "AsyncSchedules.remove"},
	"removeSession":        {"Sessions.remove", "AsyncSessions.remove"},
	"removeStream":         {"Streams.remove", "AsyncStreams.remove"},
	"removeWatch":          {"Files.unwatch", "AsyncFiles.unwatch"},
	"removeWebhook":        {"Webhooks.remove", "AsyncWebhooks.remove"},
	"renewTicket":          {"Tickets.renew", "AsyncTickets.renew"},
	"resizeExecution":      {"Reprise.resize", "AsyncReprise.resize"},
	"revokeKey":            {"Keys.revoke", "AsyncKeys.revoke"},
	"rotateKey":            {"Keys.rotate", "AsyncKeys.rotate"},
	"rotateWebhook":        {"Webhooks.rotate", "AsyncWebhooks.rotate"},
	"searchFiles":          {"Files.search", "AsyncFiles.search"},
	"sendReceipt":          {"Reprise.run", "AsyncReprise.run"},
	"setFileMode":          {"Files.setMode", "AsyncFiles.set_mode"},
	"showExecution":        {"Reprise.show", "AsyncReprise.show"},
	"showFile":             {"Files.show", "AsyncFiles.show"},
	"showInterpreter":      {"Interpreters.show", "AsyncInterpreters.show"},
	"showKey":              {"Keys.show", "AsyncKeys.show"},
	"showQuota":            {"Admin.quotas", "AsyncReprise.quotas"},
	"showSchedule":         {"Schedules.show", "AsyncSchedules.show"},
	"showSession":          {"Sessions.show", "AsyncSessions.show"},
	"showStream":           {"Streams.show", "AsyncStreams.show"},
	"showTask":             {"Tasks.show", "AsyncTasks.show"},
	"showUpload":           {"Files.upload", "AsyncFiles.upload"},
	"showWebhook":          {"Webhooks.show", "AsyncWebhooks.show"},
	"signalExecution":      {"Reprise.signal", "AsyncReprise.signal"},
	"startExecution":       {"Reprise.start", "AsyncReprise.start"},
	"startWatch":           {"Files.watch", "AsyncFiles.watch"},
	"testWebhook":          {"Webhooks.test", "AsyncWebhooks.test"},
	"watchEvents":          {"Files.changes", "AsyncFiles.changes"},
	"writeFile":            {"Files.upload", "AsyncFiles.upload"},
	"writeStdin":           {"Reprise.stdin", "AsyncReprise.stdin"},
}

// ofFile has what a change may say of a file.
var ofFile = []string{"path_base64", "etag", "target", "sha256", "line", "text"}

var typescriptSDK = &sdk{
	language: "TypeScript", folder: "../../sdk/typescript/src", files: "*.ts", parse: parseTypeScript,
	types: map[string]string{
		"DirectoryRequest": "Files.makeDirectory()", "End": "End", "EndRequest": "Producer.end()", "EventPage": "Page",
		"EventsToPublish": "", "FileChange": "FileChange",
		"FileModeRequest": "Files.setMode()", "FileMove": "Files.move()", "Gap": "Gap",
		"KeyLimitsRequest": "Admin.limitKey()", "Problem": "Problem",
		"SignalRequest": "Reprise.signal()", "Started": "Started", "TerminalSize": "Reprise.resize()",
		"WatchRequest": "Files.watch()",
	},
	renamed: map[string]string{
		"EventPage.next_cursor": "nextCursor", "EventPage.has_more": "hasMore", "SignalRequest.signal": "name",
		"Started.seq": "", "Started.time": "", "End.seq": "", "End.time": "", // of EventBase
		"Problem.type": "", "Problem.retry_after": "retryAfter",
	},
	extra: map[string][]string{"FileChange": ofFile},
	loose: map[string]bool{
		"Problem.retryAfter": true, // milliseconds
		"Page.nextCursor":    true, // the client does not count from the start
		"Started.id":         true, // an execution has one
		"FileChange.type":    true, // openapi.yaml names it alone
	},
}

var pythonSDK = &sdk{
	language: "Python", folder: "../../sdk/python/src/reprise", files: "*.py", parse: parsePython, lenient: true,
	types: map[string]string{
		"Access": "Access", "Bytes": "", "Change": "AsyncStreams.configure()",
		"DirectoryRequest": "AsyncFiles.make_directory()", "End": "End", "EndRequest": "AsyncProducer.end()",
		"EventPage": "Page", "EventToPublish": "AsyncProducer.publish()",
		"EventsToPublish": "AsyncProducer.publish_many()", "ExecutionPage": "Listing",
		"ExecutionRequest": "StartOptions", "FileChange": "FileChange", "FileModeRequest": "AsyncFiles.set_mode()",
		"FileMove": "AsyncFiles.move()", "FilePage": "Listing", "Gap": "Gap", "InputTaken": "", "InterpreterList": "",
		"InterpreterRequest": "AsyncInterpreters.open()", "Isolation": "", "KeyLimitsRequest": "AsyncKeys.limit()",
		"KeyList": "", "KeyRequest": "AsyncKeys.create()", "Layers": "", "Limits": "Limits", "Problem": "ProblemError",
		"Quota": "Quota", "ReplicaPage": "Listing", "Retention": "Retention", "RetentionChange": "Retention",
		"ScheduleList": "", "ScheduleRequest": "AsyncSchedules.create()", "SessionPage": "Listing",
		"SignalRequest": "AsyncReprise.signal()", "Started": "Started", "StreamPage": "Listing",
		"StreamRequest": "AsyncStreams.create()", "TTY": "Terminal", "TaskPage": "Listing",
		"TerminalSize": "AsyncReprise.resize()", "TicketRequest": "AsyncTickets.create()", "UploadProgress": "",
		"Usage": "", "WatchRequest": "AsyncFiles.watch()", "WebhookList": "",
		"WebhookRequest": "AsyncWebhooks.create()", "Window": "Window",
	},
	renamed: map[string]string{
		"ExecutionPage.executions": "items", "FilePage.files": "items", "SessionPage.sessions": "items",
		"StreamPage.streams":   "items",
		"ReplicaPage.replicas": "items",
		"TaskPage.tasks":       "items",
		"FileMove.from":        "source",
		"FileMove.to":          "target",
		"FileChange.from":      "source",
		"SignalRequest.signal": "name",
		"Started.seq":          "", "Started.time": "", "End.seq": "", "End.time": "", "End.data": "", // of Event
		"End.bytes":             "bytes_written",
		"ExecutionRequest.argv": "", "ExecutionRequest.command": "", // a parameter of its own
		"ExecutionRequest.stdin_base64": "", // stdin as bytes
		"ScheduleRequest.execution":     "", // parameters of its own
		"Problem.type":                  "",
	},
	extra: map[string][]string{
		"StartOptions": {"idempotency_key", "hold"},
		"FileChange":   ofFile,
		"ProblemError": {"op", "tries"},
	},
	loose: map[string]bool{
		"Problem.retry_after": true, // seconds
		"Page.next_cursor":    true, // the client does not count from the start
	},
}
