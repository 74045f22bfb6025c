//go:build !race

package execution_test

const raced = false
