package api

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/execution"
	"reprise/internal/grants"
	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/oidc"
	"reprise/internal/web"
	"reprise/internal/wire"
)

// maxLogin bounds the body of a login, which anybody may send.
const maxLogin = 4 << 10

// loginBody is the second secret of a login, which each request with its cookie has to carry.
type loginBody struct {
	Secret string `json:"secret"`
}

// login sets the cookie for a token. The token is in the body or, without a body, in the header Authorization.
func (s *Server) login(x *web.Exchange) error {
	token, err := s.loginToken(x)
	if err != nil {
		return err
	}
	login, who, err := s.gate.Login(x.R, token)
	if err == nil {
		err = x.RecordAs(&who, "login")
	}
	if err != nil {
		return err
	}
	httpserver.Authenticated(x.R)
	http.SetCookie(x.W, login.Cookie)
	return x.Answer(http.StatusOK, loginBody{Secret: login.Secret})
}

// loginToken reads the token of a login, or the code of an identity provider, for which it gets a token there.
func (s *Server) loginToken(x *web.Exchange) (string, error) {
	scheme, token, _ := strings.Cut(x.R.Header.Get("Authorization"), " ")
	text, err := s.publicBody(x)
	if err != nil {
		return "", err
	}
	if len(text) == 0 && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token), nil
	}
	var body struct {
		Token  string `json:"token"`
		Code   string `json:"code"`
		State  string `json:"state"`
		Flow   string `json:"flow"`
		Issuer string `json:"issuer"`
	}
	if err := web.DecodeAs(web.MediaType(x.R), text, &body); err != nil {
		return "", err
	}
	if body.Code == "" {
		return body.Token, nil
	}
	return s.gate.FinishFlow(x.R, body.Flow, body.State, func(flow identity.Flow) (string, error) {
		return s.opts.Issuers.Exchange(x.R.Context(), oidc.Flow(flow), body.Code, body.Issuer)
	})
}

// publicBody reads the body of a request of anybody, which has to be there within one pause.
func (s *Server) publicBody(x *web.Exchange) ([]byte, error) {
	if x.R.ContentLength > 0 && web.MediaType(x.R) != web.JSON {
		return nil, web.InvalidStatus(http.StatusUnsupportedMediaType, "the body has to be "+web.JSON)
	}
	httpserver.BoundBody(x.R, s.opts.BodyTimeout)
	return x.ReadBody(maxLogin)
}

// showProviders lists the identity providers at which a person can log in.
func (s *Server) showProviders(x *web.Exchange) error {
	return x.Answer(http.StatusOK, map[string][]string{"providers": s.opts.Issuers.Providers()})
}

// beginFlow answers with the address of a provider, and with what the page has to keep until it gets a code.
func (s *Server) beginFlow(x *web.Exchange) error {
	text, err := s.publicBody(x)
	if err != nil {
		return err
	}
	var body struct {
		Provider string `json:"provider"`
	}
	if err := web.DecodeAs(web.MediaType(x.R), text, &body); err != nil {
		return err
	}
	flow, kept, err := s.gate.BeginFlow(body.Provider)
	if err != nil {
		return err
	}
	at, err := s.opts.Issuers.Authorize(x.R.Context(), oidc.Flow(flow))
	if err != nil {
		return err
	}
	return x.Answer(http.StatusCreated, map[string]string{
		"url": at, "flow": kept, "redirect": s.opts.Issuers.Redirect(),
	})
}

func (s *Server) logout(x *web.Exchange) error {
	forget, err := s.gate.Logout(x.R)
	http.SetCookie(x.W, forget)
	if err != nil {
		return err
	}
	return x.Done()
}

func (s *Server) issueTicket(x *web.Exchange) error {
	var body client.TicketRequest
	if err := x.DecodeBody(&body); err != nil {
		return err
	}
	if (body.Execution == "") == (body.Stream == "") {
		return web.Unprocessable("execution", "one of execution and stream is needed")
	}
	stream, path, err := s.ticketStream(x, body.Execution, body.Stream)
	if err != nil {
		return err
	}
	ttl := time.Duration(body.TTL)
	if ttl < 0 || ttl > identity.MaxTicketTTL || ttl > 0 && ttl < time.Second {
		return web.Unprocessable("ttl", "a ticket lives from 1s to "+identity.MaxTicketTTL.String())
	}
	ticket, expires, err := s.gate.Ticket(x.Who, stream.Key(), ttl)
	if err != nil {
		return err
	}
	return s.answerTicket(x, ticket, expires, path)
}

// answerTicket answers with a ticket for the stream at path.
func (s *Server) answerTicket(x *web.Exchange, ticket string, expires time.Time, path string) error {
	return x.Answer(http.StatusCreated, client.Ticket{
		Ticket: ticket, Expires: wire.At(expires),
		Events: path + "/events?" + identity.TicketParam + "=" + url.QueryEscape(ticket),
	})
}

// renewTicket gives the bearer of a ticket another one that expires later.
func (s *Server) renewTicket(x *web.Exchange) error {
	if x.Who.Only == (reprise.StreamKey{}) {
		if err := x.Needs(identity.ScopeRead); err != nil {
			return err
		}
		return web.BadRequest(identity.TicketParam, "a ticket is needed; POST /v1/tickets issues one")
	}
	name := x.Who.Only.Name
	executionID, ofExecution := strings.CutPrefix(name, execution.Namespace)
	if !ofExecution {
		executionID = ""
	}
	_, path, err := s.ticketStream(x, executionID, name)
	if err != nil {
		return err
	}
	ticket, expires, err := s.gate.RenewTicket(x.R)
	if err != nil {
		return err
	}
	return s.answerTicket(x, ticket, expires, path)
}

// ticketStream finds the stream that a ticket is requested for, and its path.
func (s *Server) ticketStream(x *web.Exchange, executionID, name string) (*reprise.Stream, string, error) {
	if executionID != "" {
		if err := s.grants.MayRead(x, executionID); err != nil {
			return nil, "", err
		}
		stream, err := s.host.Stream(x.R.Context(), x.Who.Tenant, executionID)
		return stream, "/v1/executions/" + url.PathEscape(executionID), err
	}
	if strings.Contains(name, ":") {
		return nil, "", web.Unprocessable("stream", "the name of a stream holds no colon")
	}
	key := streamKey(x.Who.Tenant, name)
	if err := grants.MayReadStream(x, key); err != nil {
		return nil, "", err
	}
	stream, err := s.log.Stream(x.R.Context(), key)
	return stream, "/v1/streams/" + url.PathEscape(name), err
}
