// Package browser holds a page that follows a stream with nothing but EventSource, and a
// test that opens it in a real browser.
package browser
