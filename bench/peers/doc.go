// Package peers holds programs that run libraries of other projects as contenders of package bench. They are a module
// of their own, so that whoever builds bench does not build those libraries too; scripts/bench-peers builds them.
package peers
