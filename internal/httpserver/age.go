package httpserver

import (
	"context"
	"net/http"
	"time"
)

// Remaining returns how long a response that begins now may follow a stream, at least a tenth of Options.MaxAge. It
// returns false if there is no limit.
func Remaining(ctx context.Context) (time.Duration, bool) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok || c.limit.maxAge <= 0 {
		return 0, false
	}
	return max(time.Until(c.expires), c.limit.maxAge/10), true
}

// closeAged closes a connection with the response to the first request that comes after its age.
func closeAged(next http.Handler, maxAge time.Duration) http.Handler {
	if maxAge <= 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok && time.Now().After(c.expires) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
