package kubelet

import (
	"path"
	"slices"
	"strings"
)

// mapping rewrites paths of a container into those of this machine. The
// package documentation has the rule.
type mapping []struct{ from, to string }

// with adds a path; the longest is tried first.
func (m mapping) with(from, to string) mapping {
	from = path.Clean(from)
	if !strings.HasPrefix(from, "/") || from == "/" {
		return m
	}
	m = append(slices.Clone(m), struct{ from, to string }{from, to})
	slices.SortStableFunc(m, func(a, b struct{ from, to string }) int { return len(b.from) - len(a.from) })
	return m
}

func (m mapping) rewrite(s string) string {
	if !strings.Contains(s, "/") {
		return s
	}
	var out strings.Builder
	for at := 0; at < len(s); {
		from, to := m.match(s, at)
		if from == "" {
			out.WriteByte(s[at])
			at++
			continue
		}
		out.WriteString(to)
		at += len(from)
	}
	return out.String()
}

// match returns the path that begins at a position of the text.
func (m mapping) match(s string, at int) (from, to string) {
	if s[at] != '/' || at > 0 && (inPath(s[at-1]) || s[at-1] == '/') {
		return "", ""
	}
	for _, p := range m {
		end := at + len(p.from)
		if strings.HasPrefix(s[at:], p.from) && (end == len(s) || !inPath(s[end])) {
			return p.from, p.to
		}
	}
	return "", ""
}

func (m mapping) all(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = m.rewrite(s)
	}
	return out
}

// inPath reports whether a character goes on with the name of a file.
func inPath(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.-", c) >= 0
}
