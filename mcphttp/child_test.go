package mcphttp_test

func isChild() bool { return false }

func runChild() {}
