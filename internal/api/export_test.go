package api

import (
	"reprise/internal/apikey"
	"reprise/internal/audit"
	"reprise/internal/drain"
	"reprise/internal/files"
	"reprise/internal/mcpapi"
	"reprise/internal/roster"
	"reprise/internal/schedule"
	"reprise/internal/upkeep"
	"reprise/internal/web"
	"reprise/internal/webhook"
)

// Operations returns the operations of a Server that has everything.
func Operations() []web.Operation {
	m, err := web.New(&web.Options{})
	if err != nil {
		panic(err)
	}
	s := &Server{opts: Options{Parts: []web.Part{
		webhook.API{},
		schedule.API{},
		roster.API{},
		apikey.API{},
		upkeep.API{},
		mcpapi.Sessions{},
		mcpapi.Tasks{},
		files.API{},
		audit.API{},
		drain.API{},
	}}}
	s.routes(m, true)
	return m.Operations()
}
