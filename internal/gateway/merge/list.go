package merge

import (
	"context"
	"encoding/json"
	"sync"

	"reprise/internal/gateway/link"
	"reprise/internal/gateway/wire"
)

// maxPages bounds the answers to a list that are read of one member.
const maxPages = 100

// listKind is a kind of list.
type listKind struct {
	capability, items string // the capability that it needs, and the member of the result that holds the items
	key, separator    string // the member of an item that has the name in front, and what follows the name
}

var listKinds = map[string]*listKind{
	wire.MethodListTools:       {"tools", "tools", "name", "_"},
	"prompts/list":             {"prompts", "prompts", "name", "_"},
	"resources/list":           {"resources", "resources", "uri", "+"},
	"resources/templates/list": {"resources", "resourceTemplates", "uriTemplate", "+"},
}

// listed returns the kind of list that a method requests, or nil if it requests none.
func listed(method string) *listKind { return listKinds[method] }

// list answers with the items of all members, in one page.
func (l *Link) list(m link.Message, kind *listKind) {
	if cursor := wire.Text(m.Params, "cursor"); cursor != "" {
		l.refuse(m.ID,
			&wire.Failure{Code: wire.CodeInvalidParams, Message: "there is no such cursor: the list is one page"})
		return
	}
	lists := make([][]json.RawMessage, len(l.members))
	var asking sync.WaitGroup
	for i, member := range l.members {
		asking.Go(func() { lists[i] = member.list(m.Method, kind) })
	}
	asking.Wait()
	all := []json.RawMessage{}
	for _, items := range lists {
		all = append(all, items...)
	}
	l.succeed(m.ID, wire.Compact(map[string]any{kind.items: all}))
}

// pages reads all pages of a list. It returns false if the member has not answered each page with a result.
func (s *session) pages(ctx context.Context, method string, kind *listKind) (items []json.RawMessage, ok bool) {
	cursor := ""
	for range maxPages {
		params := map[string]string{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		m, err := s.ask(ctx, method, wire.Compact(params))
		var page []json.RawMessage
		if err != nil || m.Result == nil || json.Unmarshal(wire.Members(m.Result)[kind.items], &page) != nil {
			return nil, false
		}
		items = append(items, page...)
		if cursor = wire.Text(m.Result, "nextCursor"); cursor == "" {
			break
		}
	}
	return items, true
}
