// Package browser contains a page that follows a stream with only an EventSource, and a test that opens it in a real
// browser.
package browser
