package mcphttp

import "net/http"

func isModern(r *http.Request, messages []Message) bool { return false }

func (h *Handler) serveModern(w http.ResponseWriter, r *http.Request, c caller, messages []Message, batch bool) *refusal {
	return nil
}
