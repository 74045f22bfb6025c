// Package mcpapi shows the sessions and tasks of MCP endpoints to people, at /v1/mcp/sessions and /v1/tasks of the HTTP
// API.
package mcpapi
