package api

import (
	"strings"

	"reprise"
)

// executionNamespace is the namespace of the streams of executions.
const executionNamespace = "execution:"

// streamKey names a stream of a tenant.
func streamKey(tenant reprise.Tenant, name string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: tenant, Name: name}
}

// userStream is the key of the stream that the path names. Names with a colon are
// those of other kinds of streams, and not to be reached from here.
func userStream(x *exchange) (reprise.StreamKey, error) {
	key := streamKey(x.who.Tenant, x.r.PathValue("name"))
	if strings.Contains(key.Name, ":") {
		return key, badRequest("name", "the name of a stream holds no colon")
	}
	if err := key.Validate(); err != nil {
		return key, badRequest("name", err.Error())
	}
	return key, nil
}
