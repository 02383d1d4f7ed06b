package postgres

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const leftOut = "(left out)"

// redactor removes secrets from texts: those of the cluster, wherever they stand, and what looks like one.
type redactor struct{ known *strings.Replacer }

// shortestSecret is the length below which a text is no secret: it would be found everywhere.
const shortestSecret = 4

func newRedactor(secrets []string) redactor {
	var pairs []string
	for _, secret := range secrets {
		if len(secret) < shortestSecret {
			continue
		}
		inJSON := strings.Trim(quoted(secret), `"`)
		for _, form := range slices.Compact([]string{secret, inJSON, strings.Trim(quoted(inJSON), `"`), url.QueryEscape(secret), url.PathEscape(secret)}) {
			pairs = append(pairs, form, leftOut)
		}
	}
	return redactor{strings.NewReplacer(pairs...)}
}

// patterns are what looks like a secret, with what stays of it.
var patterns = []struct {
	form *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`), leftOut},
	{regexp.MustCompile(`(://)[^/\s"\\@]+@`), "${1}" + leftOut + "@"},
	{regexp.MustCompile(`(?i)\b([\w.-]*(?:password|passwd|passphrase|secret|token|api_?key|access_?key|credentials?)\\?["']?\s*[=:]\s*)(\\?["'])[^"']*(["'])`), "${1}${2}" + leftOut + "${3}"},
	{regexp.MustCompile(`(?i)\b((?:[\w.-]*(?:password|passwd|passphrase|secret|token|api_?key|access_?key))\s*=\s*)[^\s"'\\,;&}(]+`), "${1}" + leftOut},
	{regexp.MustCompile(`SCRAM-SHA-256\$[^\s"\\]+`), leftOut},
	{regexp.MustCompile(`\bmd5[0-9a-f]{32}\b`), leftOut},
}

func (r redactor) text(text []byte) []byte {
	s := r.known.Replace(string(text))
	for _, p := range patterns {
		s = p.form.ReplaceAllString(s, p.to)
	}
	return []byte(s)
}

// withoutCustom removes the metrics of queries that users have written, whose labels and values come from rows.
func withoutCustom(text []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte("pawl_custom_")) {
			out.Write(line)
		}
	}
	return out.Bytes()
}

// spoken are the levels of messages that repeat statements or rows.
var spoken = []string{"ERROR", "DETAIL", "STATEMENT", "CONTEXT", "QUERY", "HINT"}

// noDatabase is what PostgreSQL logs for a session that has no database: replication, or a login that fails.
const noDatabase = "[unknown]"

// withoutRows removes the text of a message that may have a statement or a row in it: all that PostgreSQL
// says about sessions in a database, and those levels. What stays are time, level, SQLSTATE, and whose it was.
func withoutRows(line []byte) []byte {
	var m struct {
		Logger   string `json:"logger"`
		Level    string `json:"level"`
		Database string `json:"database"`
	}
	if json.Unmarshal(line, &m) != nil || m.Logger != "postgres" || (m.Database == "" || m.Database == noDatabase) && !slices.Contains(spoken, m.Level) {
		return line
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil {
		return nil
	}
	fields["msg"] = json.RawMessage(quoted(leftOut))
	short, _ := json.Marshal(fields) // it was JSON
	return short
}
