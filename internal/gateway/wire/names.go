package wire

// The protocol versions. They compare as strings.
const (
	Version20250326 = "2025-03-26"
	Version20251125 = "2025-11-25" // the newest with sessions
	Version20260728 = "2026-07-28" // has no sessions
)

// The methods that the gateway treats differently from all others.
const (
	MethodInitialize  = "initialize"
	MethodPing        = "ping"
	MethodDiscover    = "server/discover"
	MethodListen      = "subscriptions/listen"
	MethodSetLevel    = "logging/setLevel"
	MethodSubscribe   = "resources/subscribe"
	MethodUnsubscribe = "resources/unsubscribe"
	MethodListTools   = "tools/list"
	MethodCall        = "tools/call"
	NoteInitialized   = "notifications/initialized"
	NoteCancelled     = "notifications/cancelled"
	NoteProgress      = "notifications/progress"
	NoteLog           = "notifications/message"
	NoteUpdated       = "notifications/resources/updated"
	NoteAcknowledged  = "notifications/subscriptions/acknowledged"
)

// The keys of _meta on version 2026-07-28.
const (
	MetaVersion      = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo   = "io.modelcontextprotocol/clientInfo"
	MetaServerInfo   = "io.modelcontextprotocol/serverInfo"
	MetaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel     = "io.modelcontextprotocol/logLevel"
	MetaSubscription = "io.modelcontextprotocol/subscriptionId"
)
