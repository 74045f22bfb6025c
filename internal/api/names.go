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

// userStream returns the key of the stream in the path. It refuses names with a colon, which belong to other kinds of
// streams.
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
