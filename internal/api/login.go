package api

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/httpserver"
	"reprise/internal/identity"
)

// maxLogin bounds the body of a login, which anybody may send.
const maxLogin = 4 << 10

// loginBody is the second secret of a login, which each request with its cookie has to carry.
type loginBody struct {
	Secret string `json:"secret"`
}

// login sets the cookie for a token. The token is in the body or, without a body, in the header Authorization.
func (s *Server) login(x *exchange) error {
	token, err := s.loginToken(x)
	if err != nil {
		return err
	}
	login, who, err := s.gate.Login(x.r, token)
	if err == nil {
		err = s.recordLogin(x, &who)
	}
	if err != nil {
		return err
	}
	httpserver.Authenticated(x.r)
	http.SetCookie(x.w, login.Cookie)
	return s.answer(x, http.StatusOK, loginBody{Secret: login.Secret})
}

// loginToken reads the token of a login. Its sender is not known, so the whole body has the time of one pause.
func (s *Server) loginToken(x *exchange) (string, error) {
	scheme, token, _ := strings.Cut(x.r.Header.Get("Authorization"), " ")
	if x.r.ContentLength > 0 && mediaType(x.r) != jsonType {
		return "", invalidStatus(http.StatusUnsupportedMediaType, "the body has to be "+jsonType)
	}
	httpserver.BoundBody(x.r, s.opts.BodyTimeout)
	text, err := s.readBody(x, maxLogin)
	if err != nil {
		return "", err
	}
	if len(text) == 0 && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token), nil
	}
	var body struct {
		Token string `json:"token"`
	}
	if err := decodeAs(mediaType(x.r), text, &body); err != nil {
		return "", err
	}
	return body.Token, nil
}

func (s *Server) logout(x *exchange) error {
	forget, err := s.gate.Logout(x.r)
	http.SetCookie(x.w, forget)
	if err != nil {
		return err
	}
	return x.done()
}

// ticketBody is a ticket and the path that it is valid for.
type ticketBody struct {
	Ticket  string         `json:"ticket"`
	Expires execution.Time `json:"expires"`
	// Events is the path of the stream's events, with the ticket in it.
	Events string `json:"events"`
}

func (s *Server) issueTicket(x *exchange) error {
	var body struct {
		Execution string             `json:"execution"`
		Stream    string             `json:"stream"`
		TTL       execution.Duration `json:"ttl"`
	}
	if err := s.decodeBody(x, &body); err != nil {
		return err
	}
	if (body.Execution == "") == (body.Stream == "") {
		return unprocessable("execution", "one of execution and stream is needed")
	}
	stream, path, err := s.ticketStream(x, body.Execution, body.Stream)
	if err != nil {
		return err
	}
	ttl := time.Duration(body.TTL)
	if ttl < 0 || ttl > identity.MaxTicketTTL || ttl > 0 && ttl < time.Second {
		return unprocessable("ttl", "a ticket lives from 1s to "+identity.MaxTicketTTL.String())
	}
	ticket, expires, err := s.gate.Ticket(x.who, stream.Key(), ttl)
	if err != nil {
		return err
	}
	return s.answerTicket(x, ticket, expires, path)
}

// answerTicket answers with a ticket for the stream at path.
func (s *Server) answerTicket(x *exchange, ticket string, expires time.Time, path string) error {
	return s.answer(x, http.StatusCreated, ticketBody{
		Ticket: ticket, Expires: execution.Time{Time: expires},
		Events: path + "/events?" + identity.TicketParam + "=" + url.QueryEscape(ticket),
	})
}

// renewTicket gives the bearer of a ticket another one that expires later.
func (s *Server) renewTicket(x *exchange) error {
	if x.who.Only == (reprise.StreamKey{}) {
		if err := x.needs(identity.ScopeRead); err != nil {
			return err
		}
		return badRequest(identity.TicketParam, "a ticket is needed; POST /v1/tickets issues one")
	}
	name := x.who.Only.Name
	executionID, ofExecution := strings.CutPrefix(name, executionNamespace)
	if !ofExecution {
		executionID = ""
	}
	_, path, err := s.ticketStream(x, executionID, name)
	if err != nil {
		return err
	}
	ticket, expires, err := s.gate.RenewTicket(x.r)
	if err != nil {
		return err
	}
	return s.answerTicket(x, ticket, expires, path)
}

// ticketStream finds the stream that a ticket is requested for, and its path.
func (s *Server) ticketStream(x *exchange, executionID, name string) (*reprise.Stream, string, error) {
	if executionID != "" {
		if err := s.mayReadExecution(x, executionID); err != nil {
			return nil, "", err
		}
		stream, err := s.host.Stream(x.r.Context(), x.who.Tenant, executionID)
		return stream, "/v1/executions/" + url.PathEscape(executionID), err
	}
	if strings.Contains(name, ":") {
		return nil, "", unprocessable("stream", "the name of a stream holds no colon")
	}
	key := streamKey(x.who.Tenant, name)
	if err := x.mayReadStream(key); err != nil {
		return nil, "", err
	}
	stream, err := s.log.Stream(x.r.Context(), key)
	return stream, "/v1/streams/" + url.PathEscape(name), err
}
