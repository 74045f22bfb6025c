package park

import "net/http"

// Handler returns a handler that parks the responses of next, for a server that does nothing at their end.
func (l *Lot) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		through := &through{w}
		seat := l.Seat(through, r, func(parked http.ResponseWriter) { through.ResponseWriter = parked })
		if seat == nil {
			next.ServeHTTP(w, r)
			return
		}
		seat.Offer()
		next.ServeHTTP(through, r.WithContext(seat))
		if seat.Parked() {
			seat.Settle(func() {})
			return
		}
		seat.Release()
	})
}

// through passes on what is written.
type through struct{ http.ResponseWriter }

// Unwrap lets http.ResponseController reach the connection.
func (t *through) Unwrap() http.ResponseWriter { return t.ResponseWriter }
