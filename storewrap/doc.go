// Package storewrap holds Stores around a Store.
package storewrap
