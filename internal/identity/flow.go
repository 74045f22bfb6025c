package identity

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
	"time"

	"reprise"
)

const (
	// flowTTL is how long a person may take to log in at an identity provider.
	flowTTL     = 10 * time.Minute
	maxProvider = 1024 // bytes of a name
)

// Flow is a login at an identity provider that has begun. Its nonce and verifier follow from the state and the keys of
// the server, so that no page and no cookie has them.
type Flow struct {
	Provider               string
	State, Nonce, Verifier string
}

func (g *Gate) flow(provider, state string) Flow {
	return Flow{
		Provider: provider, State: state,
		Nonce: g.keys.Sign(nonceLabel, state), Verifier: g.keys.Sign(verifierLabel, state),
	}
}

// BeginFlow begins a login at a provider. The page that asked keeps the text kept, which no other page gets, for
// FinishFlow.
// The error wraps reprise.ErrInvalid for a name that is too long.
func (g *Gate) BeginFlow(provider string) (flow Flow, kept string, err error) {
	if len(provider) > maxProvider {
		return Flow{}, "", fmt.Errorf("%w: the name of the provider is too long", reprise.ErrInvalid)
	}
	state := rand.Text()
	kept, err = seal(g.keys, flowLabel, claims{Provider: provider, ID: state, Expires: time.Now().Add(flowTTL).Unix()})
	return g.flow(provider, state), kept, err
}

// FinishFlow calls redeem with the flow that began with the text kept and came back with state. It returns the errors
// of Identify and of redeem. A GuessError counts as a guess of the sender.
func (g *Gate) FinishFlow(r *http.Request, kept, state string, redeem func(Flow) (string, error)) (string, error) {
	c, err := unseal(g.keys, flowLabel, kept, time.Now())
	if err == nil && subtle.ConstantTimeCompare([]byte(c.ID), []byte(state)) != 1 {
		err = &GuessError{Reason: "the state belongs to another login"}
	}
	token := ""
	if err == nil {
		token, err = redeem(g.flow(c.Provider, c.ID))
	}
	return token, g.noteGuess(r, err)
}
