// Package merge makes one upstream of several: a link.Link whose other side is an MCP server with the tools, prompts
// and resources of all its members, each under the name of its member.
//
// A tool or prompt x of the member m is m_x, and a resource whose URI is u has the URI m+u. Names of members hold
// neither "_" nor "+", so that the first one of either ends the name.
//
// # The way of a tools/call
//
//  1. [Link.Send] hands the request to [Link.route], which finds the member by the name of the tool.
//  2. [member.connect] returns the member's [session], or makes one with [member.greet].
//  3. [session.forward] enters the request in the [requestTable], under the id that the gateway gave it, and sends it.
//  4. [session.Receive] takes the response, puts the member's name in front of the URIs in it, and hands it on.
//
// Lists are asked of all members at the same time by [Link.list], and kept by [member.list]; requests of members to the
// client go through [Link.ask], which gives them ids that are unique over all members.
//
// # A member that is away
//
// It does not affect the others. initialize is answered without a member that does not start in time. A list contains
// the last known items of a member that does not answer. Requests for it are answered with an error. The gateway
// retries it, at first at once and at last every 30 seconds, and notifies the client of changed lists when it is back.
package merge
