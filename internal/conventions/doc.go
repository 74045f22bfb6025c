// Package conventions has the tests of what no compiler checks: sizes of files and functions, imports, names, exported
// identifiers, and that documents name what exists.
package conventions
