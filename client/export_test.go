package client

import "net/http"

// CloseProven closes the connections of Clients that have found their token in a file.
func CloseProven() {
	provenTransports.Range(func(_, transport any) bool {
		transport.(*http.Transport).CloseIdleConnections()
		return true
	})
}
