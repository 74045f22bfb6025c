package api

import "reprise/internal/web"

// Operations returns the operations of a Server that has everything.
func Operations() []web.Operation {
	m, err := web.New(&web.Options{})
	if err != nil {
		panic(err)
	}
	new(Server).routes(m, true)
	return m.Operations()
}
