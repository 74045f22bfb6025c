package api

// Operation is a route as the tests see it.
type Operation struct {
	Method, Path string
	Query        []string
}

// Operations returns what the Server knows.
func Operations() []Operation {
	var ops []Operation
	for _, rt := range routes() {
		ops = append(ops, Operation{rt.method, rt.path, rt.query})
	}
	return ops
}
