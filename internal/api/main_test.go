package api_test

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"reprise/internal/execution"
)

// wanted are the answers that the tests have to have seen, all of them held against the document.
var wanted = map[string][]int{
	"POST /v1/executions":            {200, 201, 400, 401, 406, 409, 413, 415, 422, 429, 503},
	"GET /v1/executions":             {200, 400, 401},
	"GET /v1/executions/{id}":        {200, 404},
	"DELETE /v1/executions/{id}":     {204},
	"GET /v1/executions/{id}/events": {200, 204, 400, 401, 403, 404, 406, 409, 410, 429},
	"GET /v1/executions/{id}/stdout": {200, 206, 404, 410, 416},
	"GET /v1/executions/{id}/stderr": {200},

	"GET /v1/executions/{id}/screen":    {200, 400, 404, 409},
	"POST /v1/executions/{id}/receipts": {204, 400, 404},

	"POST /v1/executions/{id}/stdin":  {200, 404, 409, 413},
	"POST /v1/executions/{id}/signal": {204, 404, 409, 422},
	"POST /v1/executions/{id}/resize": {204, 404, 409, 422},
	"POST /v1/executions/{id}/cancel": {204, 404},

	"GET /v1/streams":                {200, 500, 503},
	"PUT /v1/streams/{name}":         {200, 201, 400, 409, 415, 422, 503},
	"GET /v1/streams/{name}":         {200, 404, 410},
	"DELETE /v1/streams/{name}":      {204},
	"GET /v1/streams/{name}/events":  {200, 204, 400, 403, 404, 409, 410, 429},
	"POST /v1/streams/{name}/events": {200, 400, 404, 409, 410, 413, 422, 429, 503},
	"POST /v1/streams/{name}/end":    {200, 409, 422},
	"POST /v1/streams/{name}/trim":   {200, 400, 409},

	"GET /v1/sessions":         {200},
	"GET /v1/sessions/{id}":    {200, 404},
	"DELETE /v1/sessions/{id}": {204},

	"GET /v1/mcp/sessions":         {200, 400},
	"GET /v1/mcp/sessions/{id}":    {200, 404},
	"DELETE /v1/mcp/sessions/{id}": {204},

	"GET /v1/mcp/sessions/{id}/calls": {200, 400, 404},

	"GET /v1/tasks":              {200, 400},
	"GET /v1/tasks/{id}":         {200, 404},
	"POST /v1/tasks/{id}/cancel": {204, 404},

	"GET /v1/replicas": {200, 400},

	"GET /v1/proof":             {200, 400},
	"GET /v1/keys":              {200},
	"POST /v1/keys":             {201, 422},
	"GET /v1/keys/{id}":         {200, 404},
	"DELETE /v1/keys/{id}":      {204, 404},
	"POST /v1/keys/{id}/rotate": {200, 409},

	"GET /v1/webhooks":              {200},
	"POST /v1/webhooks":             {201, 403, 422},
	"GET /v1/webhooks/{id}":         {200, 404},
	"DELETE /v1/webhooks/{id}":      {204, 404},
	"POST /v1/webhooks/{id}/rotate": {200, 404},
	"POST /v1/webhooks/{id}/enable": {200, 404},
	"POST /v1/webhooks/{id}/test":   {200, 404},

	"GET /v1/schedules":               {200},
	"POST /v1/schedules":              {201, 403, 422},
	"GET /v1/schedules/{id}":          {200, 404},
	"DELETE /v1/schedules/{id}":       {204, 404},
	"POST /v1/schedules/{id}/disable": {200, 404},
	"POST /v1/schedules/{id}/enable":  {200, 404},

	"GET /v1/audit/events": {200, 401, 403},
	"POST /v1/audit/check": {200, 403},

	"GET /v1/files":              {200, 400, 404, 422},
	"DELETE /v1/files":           {204, 409, 422},
	"GET /v1/files/stat":         {200, 403, 404, 422},
	"GET /v1/files/search":       {200, 422},
	"GET /v1/files/content":      {200, 206, 304, 404, 416, 422},
	"PUT /v1/files/content":      {200, 403, 404, 409, 422},
	"GET /v1/files/upload":       {200, 422},
	"POST /v1/files/move":        {200, 404, 409, 422},
	"POST /v1/files/directory":   {200, 409},
	"POST /v1/files/permissions": {200, 422},
	"POST /v1/files/watches":     {200, 404, 422},

	"GET /v1/files/watches/{id}/events": {200, 404},
	"DELETE /v1/files/watches/{id}":     {204},

	"POST /v1/login":    {200, 401, 429},
	"DELETE /v1/login":  {204},
	"POST /v1/tickets":  {201, 403, 404, 422},
	"GET /openapi.yaml": {200},
	"GET /healthz":      {200, 403},
	"GET /readyz":       {200, 503},
	"GET /metrics":      {200, 401},
}

func TestMain(m *testing.M) {
	execution.Supervise()
	flag.Parse()
	// A Host uses package signal where this process was started with SIGINT or SIGHUP ignored. The first use starts
	// goroutines, which must not belong to the bubble of a test.
	first := make(chan os.Signal, 1)
	signal.Notify(first, syscall.SIGTERM)
	signal.Stop(first)
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println("leaked:", err)
		code = 1
	}
	whole := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == ""
	if code == 0 && whole && !sawAll() {
		code = 1
	}
	os.Exit(code)
}

// sawAll reports whether the tests have seen every wanted answer.
func sawAll() bool {
	all := true
	for operation, statuses := range wanted {
		for _, status := range statuses {
			if answer := fmt.Sprintf("%s %d", operation, status); !theContract().seen[answer] {
				fmt.Println("no test has seen", answer)
				all = false
			}
		}
	}
	return all
}
