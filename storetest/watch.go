package storetest

var watchChecks = []check{}
var shareChecks = []check{}
