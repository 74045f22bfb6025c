// Package storewrap has Stores around Stores that the programs of reprise do not use: Transform changes, redacts or
// drops events, and Audit records who has changed what, never data.
//
// Their place in a stack is outside: Audit around Transform around the wrappers of reprise/store/storewrap. Orders that
// cannot work are refused. Both implement the contract of reprise.Store with every optional ability; package storetest
// checks it.
package storewrap
