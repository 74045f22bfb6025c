package resumetest_test

import (
	"context"
	"fmt"

	"reprise/mcp/mcphttp/resumetest"
)

// A program checks a server and prints what it has found, case by case.
func ExampleCheck() {
	target := resumetest.Target{URL: "http://127.0.0.1:8080/mcp"}
	resumetest.Check(context.Background(), target, func(r resumetest.Result) {
		fmt.Println(r.Outcome, r.Case, r.Version, r.Detail)
	})
}
