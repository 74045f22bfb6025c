package identity

import (
	"fmt"
	"net/http"
	"time"

	"reprise"
)

// Ticket returns the text of a ticket that reads one stream for ttl from now on,
// or for as long as the proof of p itself is good. The caller has checked that p may read that stream. ttl is whole
// seconds, from one to MaxTicketTTL; 0 means DefaultTicketTTL. The error wraps ErrForbidden if p may not
// read streams of its tenant and reprise.ErrInvalid if ttl is out of bounds.
func (g *Gate) Ticket(p Principal, stream reprise.StreamKey,
	ttl time.Duration,
) (text string, expires time.Time, err error) {
	if !p.May(ScopeRead) || stream.Tenant != p.Tenant {
		return "", time.Time{}, fmt.Errorf("%w: the ticket is for something that you may not read", ErrForbidden)
	}
	if ttl == 0 {
		ttl = DefaultTicketTTL
	}
	if ttl < time.Second || ttl > MaxTicketTTL {
		return "", time.Time{}, fmt.Errorf("%w: a ticket lives from 1s to %v", reprise.ErrInvalid, MaxTicketTTL)
	}
	now := time.Now()
	expires = earlier(now.Add(ttl), p.Expires).Truncate(time.Second)
	text, err = seal(g.keys, ticketLabel, claims{
		Credential: p.Credential, Stream: stream.Name, Expires: expires.Unix(),
		Begun: now.Unix(), TTL: int64(ttl / time.Second),
	})
	return text, expires, err
}

// RenewTicket returns another ticket in the place of the one that r carries and Identify has taken: for the same
// stream, of the same credential, and for as long again, but not beyond MaxTicketTTL after the first of them was
// issued, or the end of the credential. The error wraps ErrForbidden for a ticket that lives as long as it can.
func (g *Gate) RenewTicket(r *http.Request) (text string, expires time.Time, err error) {
	c, err := unseal(g.keys, ticketLabel, r.URL.Query().Get(TicketParam), time.Now())
	if err != nil {
		return "", time.Time{}, err
	}
	p, err := g.current(r.Context(), c.Credential)
	if err != nil {
		return "", time.Time{}, err
	}
	limit := earlier(time.Unix(c.Begun, 0).Add(MaxTicketTTL), p.Expires)
	if limit.Unix() <= c.Expires {
		return "", time.Time{},
			fmt.Errorf("%w: tickets are renewed for %v, and no longer than their credential is good",
				ErrForbidden, MaxTicketTTL)
	}
	expires = earlier(time.Now().Add(time.Duration(c.TTL)*time.Second), limit)
	c.Expires = max(expires.Unix(), c.Expires)
	text, err = seal(g.keys, ticketLabel, c)
	return text, time.Unix(c.Expires, 0), err
}
