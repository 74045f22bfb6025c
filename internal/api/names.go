package api

import (
	"strings"

	"reprise"
	"reprise/internal/web"
)

// streamKey names a stream of a tenant.
func streamKey(tenant reprise.Tenant, name string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: tenant, Name: name}
}

// userStream returns the key of the stream in the path. It refuses names with a colon, which belong to other kinds of
// streams.
func userStream(x *web.Exchange) (reprise.StreamKey, error) {
	key := streamKey(x.Who.Tenant, x.R.PathValue("name"))
	if strings.Contains(key.Name, ":") {
		return key, web.BadRequest("name", "the name of a stream holds no colon")
	}
	if err := key.Validate(); err != nil {
		return key, web.BadRequest("name", err.Error())
	}
	return key, nil
}
