package clienttest_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sdk is a client of another language, and how its types are called.
type sdk struct {
	language string
	folder   string
	files    string // a pattern for the sources, below folder
	// types has the types by the names of schemas: that of an interface or class; with "()" that of a method, whose
	// parameters are the members; "" where there is none of its own.
	types map[string]string
	// renamed has other names for members, as in "FileMove.from"; "" is left out on purpose.
	renamed map[string]string
	// extra has the members that a type has for itself.
	extra map[string][]string
	// loose has the members whose values are of another kind on purpose.
	loose map[string]bool
	// lenient: an empty value stands for what is null or left out.
	lenient bool
	parse   func(text string) *source
}

// source is what was found in the files of a client.
type source struct {
	types map[string]map[string]member
	words map[string]bool // in quotes, or as names of members and parameters
}

func (s *sdk) open(t *testing.T) *source {
	t.Helper()
	var text strings.Builder
	names, err := filepath.Glob(filepath.Join(filepath.FromSlash(s.folder), s.files))
	must(t, err)
	more, err := filepath.Glob(filepath.Join(filepath.FromSlash(s.folder), "_async", s.files))
	must(t, err)
	for _, name := range append(names, more...) {
		content, err := os.ReadFile(name)
		must(t, err)
		text.Write(content)
		text.WriteString("\n")
	}
	if text.Len() == 0 {
		t.Fatalf("no sources in %s", s.folder)
	}
	return s.parse(text.String())
}

// members are those of a type, nil if there is none.
func (s *source) members(target string) map[string]member { return s.types[target] }

// sends reports whether a word stands in the source as a name of a member or parameter, or in quotes.
func (s *source) sends(word string) bool { return s.words[word] }

var word = regexp.MustCompile(`['"](\w+)['"]|\b(\w+)\b *[?]?[:,}=]`)

func newSource(text string) *source {
	s := &source{types: map[string]map[string]member{}, words: map[string]bool{}}
	for _, found := range word.FindAllStringSubmatch(text, -1) {
		s.words[found[1]+found[2]] = true
	}
	return s
}

var (
	tsComment   = regexp.MustCompile(`(?s:/\*.*?\*/)|(?m:^\s*//.*$)|\s// .*`)
	tsInterface = regexp.MustCompile(`(?ms)^(?:export )?interface (\w+)(?:<[^\n]*>)?(?: extends (\w+))? \{\n(.*?)^\}`)
	tsMember    = regexp.MustCompile(`(?m)^  (?:readonly )?(\w+)(\??): (.+)$`)
	tsAlias     = regexp.MustCompile(`(?m)^(?:export )?type (\w+)(?:<.*?>)? =(.*(?:\n[ \t]+.*)*)`)
	tsClass     = regexp.MustCompile(`(?ms)^(?:export )?class (\w+)[^\n]*\{\n(.*?)^\}`)
	tsMethod    = regexp.MustCompile(`(?ms)^  (?:constructor\(.*?\) \{|(?:async )?(\w+)(?:<.*?>)?\((.*?)\): [^\n]*\{)`)
	tsParameter = regexp.MustCompile(`(\w+)(\??): ((?:Record<[^>]*>|'[^']*'|[\w\[\]| ])+)`)
	tsWord      = regexp.MustCompile(`'[^']*'|\w+`)
)

// parseTypeScript reads interfaces, classes and aliases as the client writes them: a member to a line.
func parseTypeScript(text string) *source {
	text = tsComment.ReplaceAllString(text, "")
	s := newSource(text)
	aliases := map[string]string{}
	for _, found := range tsAlias.FindAllStringSubmatch(text, -1) {
		aliases[found[1]] = found[2]
	}
	for _, found := range tsInterface.FindAllStringSubmatch(text, -1) {
		members := map[string]member{}
		maps.Copy(members, s.types[found[2]])
		for _, m := range tsMember.FindAllStringSubmatch(found[3], -1) {
			members[m[1]] = tsMemberOf(m[3], m[2] == "", aliases)
		}
		s.types[found[1]] = members
	}
	for name, alias := range aliases {
		if members := tsUnion(name, alias, s.types, aliases); len(members) > 0 {
			s.types[name] = members
		}
	}
	for _, class := range tsClass.FindAllStringSubmatch(text, -1) {
		for _, method := range tsMethod.FindAllStringSubmatch(class[2], -1) {
			members := map[string]member{}
			for _, m := range tsParameter.FindAllStringSubmatch(method[2], -1) {
				members[m[1]] = tsMemberOf(m[3], m[2] == "", aliases)
			}
			s.types[class[1]+"."+method[1]+"()"] = members
		}
	}
	return s
}

// tsUnion joins the members of an intersection of interfaces and object types.
func tsUnion(name, alias string, types map[string]map[string]member, aliases map[string]string) map[string]member {
	members := map[string]member{}
	for _, word := range tsWord.FindAllString(alias, -1) {
		for key, m := range types[word] {
			if word != name {
				members[key] = m
			}
		}
	}
	for _, object := range regexp.MustCompile(`\{([^{}]*)\}`).FindAllStringSubmatch(alias, -1) {
		for _, m := range tsParameter.FindAllStringSubmatch(object[1], -1) {
			if strings.TrimSpace(m[3]) != "never" {
				members[m[1]] = tsMemberOf(m[3], false, aliases)
			}
		}
	}
	return members
}

// tsMemberOf reads the type of a member.
func tsMemberOf(text string, required bool, aliases map[string]string) member {
	m := member{required: required}
	text = strings.TrimSpace(text)
	for part := range strings.SplitSeq(text, "|") {
		part = strings.TrimSpace(part)
		switch {
		case part == "" || part == "undefined":
		case strings.HasPrefix(part, "'"):
			m.kinds, m.enum = append(m.kinds, "string"), append(m.enum, strings.Trim(part, "'"))
		case part == "string" || part == "number" || part == "boolean" || part == "null":
			m.kinds = append(m.kinds, part)
		case part == "unknown" || part == "any":
			return member{required: required}
		case strings.HasSuffix(part, "[]"):
			m.kinds = append(m.kinds, "array")
		case aliases[part] != "" && !strings.Contains(aliases[part], "{") && !strings.Contains(aliases[part], "&"):
			inner := tsMemberOf(aliases[part], required, aliases)
			m.kinds, m.enum = append(m.kinds, inner.kinds...), append(m.enum, inner.enum...)
		default:
			m.kinds = append(m.kinds, "object")
		}
	}
	m.kinds, m.enum = sorted(m.kinds), sorted(m.enum)
	return m
}

var (
	pyClass    = regexp.MustCompile(`(?m)^class (\w+)(?:\(([^)]*)\))?:$`)
	pyMember   = regexp.MustCompile(`(?m)^    (\w+): (.+?)(?: = .*)?$`)
	pyProperty = regexp.MustCompile(`(?m)^    @property\n    def (\w+)\(self\) -> (.+):$`)
	pyField    = regexp.MustCompile(`(?m)^        self\.([a-z]\w*)(?:: ([\w.| ]+))? = `)
	pyMethod   = regexp.MustCompile(`(?ms)^    (?:async )?def (\w+)\((.*?)\) -> [^\n]*:`)
	pyArgument = regexp.MustCompile(`(\w+): ((?:[\w.]+(?:\[[^\]]*\])?(?: \| )?)+)`)
)

// parsePython reads classes as the client writes them.
func parsePython(text string) *source {
	s := newSource(text)
	heads := pyClass.FindAllStringSubmatchIndex(text, -1)
	for i, head := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		name, body := text[head[2]:head[3]], text[head[1]:end]
		members := map[string]member{}
		if base := head[4] >= 0 && text[head[4]:head[5]] != "Event" && text[head[4]:head[5]] != "Model"; base {
			maps.Copy(members, s.types[text[head[4]:head[5]]])
		}
		for _, pattern := range []*regexp.Regexp{pyField, pyMember, pyProperty} {
			for _, m := range pattern.FindAllStringSubmatch(body, -1) {
				members[m[1]] = pyMemberOf(m[2])
			}
		}
		s.types[name] = members
		for _, method := range pyMethod.FindAllStringSubmatch(body, -1) {
			members := map[string]member{}
			for _, m := range pyArgument.FindAllStringSubmatch(method[2], -1) {
				members[m[1]] = pyMemberOf(m[2])
			}
			s.types[name+"."+method[1]+"()"] = members
		}
	}
	return s
}

// pyMemberOf reads an annotation.
func pyMemberOf(text string) member {
	var m member
	if text == "" {
		return m
	}
	for part := range strings.SplitSeq(text, " | ") {
		part, of, _ := strings.Cut(strings.TrimSpace(part), "[")
		switch part {
		case "Literal":
			m.kinds = append(m.kinds, "string")
			for value := range strings.SplitSeq(strings.TrimSuffix(of, "]"), ", ") {
				m.enum = append(m.enum, strings.Trim(value, `"`))
			}
		case "str", "datetime", "Duration", "_wire.Duration", "bytes", "int | str":
			m.kinds = append(m.kinds, "string")
		case "int", "float":
			m.kinds = append(m.kinds, "number")
		case "bool":
			m.kinds = append(m.kinds, "boolean")
		case "None":
			m.kinds = append(m.kinds, "null")
		case "list", "Sequence", "Iterable":
			m.kinds = append(m.kinds, "array")
		case "object", "Any":
			return member{}
		default:
			m.kinds = append(m.kinds, "object")
		}
	}
	m.kinds, m.enum = sorted(m.kinds), sorted(m.enum)
	return m
}
