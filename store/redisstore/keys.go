package redisstore

import (
	"strings"

	"reprise"
)

// The keys of a log with the prefix "reprise". The part in braces determines the slot in a Redis Cluster.
//
//	reprise:{default/builds/42}:state    hash: the state of the stream, or its mark
//	reprise:{default/builds/42}:batches  stream: one entry for each batch, its id is "<last seq>-0"
//	reprise:{reprise}:number             the number of the stream that was created last
//	reprise:{reprise}:list...            sorted sets: the streams by number, four times; see listKey
//	reprise:{reprise}:ends               sorted set: the streams that have ended, by End.Expires
//	reprise:{reprise}:histories          hash: the histories of the masters; see relist
//
// The key of the state is also the name of the channel that announces changes of the stream.
type keys struct{ prefix string }

func (k keys) state(key reprise.StreamKey) string   { return k.of(key) + "state" }
func (k keys) batches(key reprise.StreamKey) string { return k.of(key) + "batches" }

func (k keys) of(key reprise.StreamKey) string {
	return k.prefix + ":{" + string(key.Tenant) + "/" + key.Name + "}:"
}

func (k keys) index(name string) string { return k.prefix + ":{" + k.prefix + "}:" + name }
func (k keys) number() string           { return k.index("number") }
func (k keys) ends() string             { return k.index("ends") }
func (k keys) histories() string        { return k.index("histories") }

// listKey returns the key of the sorted set of a tenant's streams in a namespace. An empty tenant means all tenants,
// and allNamespaces means all namespaces.
func (k keys) listKey(tenant reprise.Tenant, namespace string, allNamespaces bool) string {
	name := "list"
	if tenant != "" {
		name += ":t=" + string(tenant)
	}
	if !allNamespaces {
		name += ":n=" + namespace
	}
	return k.index(name)
}

// lists returns the keys of the lists that hold a stream.
func (k keys) lists(key reprise.StreamKey) [4]string {
	namespace := key.Namespace()
	return [...]string{
		k.listKey("", "", true), k.listKey(key.Tenant, "", true),
		k.listKey("", namespace, false), k.listKey(key.Tenant, namespace, false),
	}
}

// parseKey is the inverse of reprise.StreamKey.String.
func parseKey(text string) (key reprise.StreamKey, ok bool) {
	tenant, name, ok := strings.Cut(text, "/")
	return reprise.StreamKey{Tenant: reprise.Tenant(tenant), Name: name}, ok
}

// listable reports whether streams can match q. An invalid name must not become part of a key.
func listable(q *reprise.ListQuery) bool {
	tenant := q.Tenant
	if tenant == "" {
		tenant = reprise.DefaultTenant
	}
	namespace := q.Namespace
	if q.AllNamespaces {
		namespace = ""
	}
	if namespace != "" && !strings.HasSuffix(namespace, ":") {
		return false
	}
	return reprise.StreamKey{Tenant: tenant, Name: namespace + "x"}.Validate() == nil
}
