package api

import (
	"reprise/internal/grants"
	"reprise/internal/reads"
	"reprise/internal/web"
)

func (s *Server) executionEvents(x *web.Exchange) error {
	id := x.R.PathValue("id")
	if err := s.grants.MayRead(x, id); err != nil {
		return err
	}
	stream, err := s.host.Stream(x.R.Context(), x.Who.Tenant, id)
	if err != nil {
		return err
	}
	rd := &reads.Reading{Stream: stream, Attend: func() (leave func()) {
		return s.host.FollowIf(x.R.Context(), x.Who.Tenant, id, x.Who.MayLeave)
	}}
	if token := x.R.Header.Get(holdHeader); token != "" {
		if hold := s.host.Held(x.Who.Tenant, id, token); hold != nil {
			awaitReceipts(x, hold)
			rd.Sent = hold.Sent
		}
	}
	return s.opts.Reads.Follow(x, rd)
}

func (s *Server) streamEvents(x *web.Exchange) error {
	key, err := userStream(x)
	if err != nil {
		return err
	}
	if err := grants.MayReadStream(x, key); err != nil {
		return err
	}
	stream, err := s.log.Stream(x.R.Context(), key)
	if err != nil {
		return err
	}
	return s.opts.Reads.Follow(x, &reads.Reading{Stream: stream})
}
