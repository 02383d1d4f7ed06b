package kube

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// peerRules say which certificates are accepted besides that the authority has signed them: one rule must hold. They
// have the form of FDB_TLS_VERIFY_PEERS, which FoundationDB's own connections follow, and like it they look at no
// host name. Source: foundationdb 7.3.69, flow/TLSConfig.actor.cpp, TLSPolicy.
type peerRules []peerRule

type peerRule struct {
	unchecked bool // Check.Valid=0: any certificate will do
	criteria  []criterion
}

// criterion is one condition: S.CN=name.
type criterion struct {
	of    byte   // S, I or R: subject, issuer, root
	field string // CN, or subjectAltName
	match byte   // = is the whole value, > its beginning, < its end
	value string
}

// The fields of names.
var nameFields = map[string]asn1.ObjectIdentifier{
	"C": {2, 5, 4, 6}, "CN": {2, 5, 4, 3}, "L": {2, 5, 4, 7}, "ST": {2, 5, 4, 8}, "O": {2, 5, 4, 10}, "OU": {2, 5, 4, 11},
	"UID": {0, 9, 2342, 19200300, 100, 1, 1}, "DC": {0, 9, 2342, 19200300, 100, 1, 25},
}

const alternativeNames = "subjectAltName"

// parsePeerRules reads rules: Check.Valid=1,S.CN=name|S.subjectAltName>=DNS:prefix. Empty: no rule.
func parsePeerRules(text string) (peerRules, error) {
	var rules peerRules
	for _, part := range splitUnescaped(text, '|') {
		if part == "" {
			return nil, fmt.Errorf("%q has an empty rule", text)
		}
		var rule peerRule
		for _, term := range splitUnescaped(part, ',') {
			if err := rule.add(term); err != nil {
				return nil, fmt.Errorf("%q in %q: %w", term, text, err)
			}
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

func (r *peerRule) add(term string) error {
	key, value, is := strings.Cut(term, "=")
	if !is || value == "" {
		return errors.New("it is not name=value")
	}
	switch {
	case term == "Check.Valid=0":
		r.unchecked = true
		return nil
	case term == "Check.Valid=1", term == "Check.Unexpired=0", term == "Check.Unexpired=1": // the last two mean nothing
		return nil
	}
	c := criterion{of: 'S', match: '='}
	if last := key[max(0, len(key)-1):]; last == "<" || last == ">" {
		c.match, key = last[0], key[:len(key)-1]
	}
	if scope, field, scoped := strings.Cut(key, "."); scoped {
		key = field
		if !slices.Contains([]string{"S", "Subject", "I", "Issuer", "R", "Root"}, scope) {
			return fmt.Errorf("%s is none of S, I and R", scope)
		}
		c.of = scope[0]
	}
	if _, known := nameFields[key]; !known && key != alternativeNames {
		return fmt.Errorf("%s is no field of a certificate", key)
	}
	c.field = key
	var err error
	c.value, err = unescape(value)
	r.criteria = append(r.criteria, c)
	return err
}

// splitUnescaped splits a text at a character that has no backslash before it. Empty: no part.
func splitUnescaped(text string, at byte) (parts []string) {
	if text == "" {
		return nil
	}
	start := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case at:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}

// unescape reads a value of RFC 4514: a backslash stands before a special character or two hexadecimal digits.
func unescape(value string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] != '\\' {
			b.WriteByte(value[i])
			continue
		}
		rest := value[i+1:]
		switch {
		case rest != "" && strings.ContainsAny(rest[:1], " \"#+,;<=>|\\"):
			b.WriteByte(rest[0])
			i++
		case len(rest) >= 2:
			digits, err := hex.DecodeString(rest[:2])
			if err != nil {
				return "", err
			}
			b.Write(digits)
			i += 2
		default:
			return "", errors.New("it ends in a backslash")
		}
	}
	return b.String(), nil
}

// unchecked reports whether any certificate is accepted.
func (rules peerRules) unchecked() bool {
	return slices.ContainsFunc(rules, func(r peerRule) bool { return r.unchecked })
}

// accept reports whether a chain, from the peer's certificate to the root, fulfils a rule.
func (rules peerRules) accept(chain []*x509.Certificate) bool {
	return len(rules) == 0 || slices.ContainsFunc(rules, func(r peerRule) bool {
		return !slices.ContainsFunc(r.criteria, func(c criterion) bool { return !c.holds(chain) })
	})
}

func (c criterion) holds(chain []*x509.Certificate) bool {
	peer, root := chain[0], chain[len(chain)-1]
	if c.field == alternativeNames {
		switch c.of {
		case 'S':
			return c.holdsAlternative(peer)
		case 'R':
			return c.holdsAlternative(root)
		}
		return false
	}
	name := map[byte]pkix.Name{'S': peer.Subject, 'I': peer.Issuer, 'R': root.Subject}[c.of]
	var values []string
	for _, entry := range name.Names {
		if text, is := entry.Value.(string); is && entry.Type.Equal(nameFields[c.field]) {
			values = append(values, text)
		}
	}
	return len(values) == 1 && c.matches(values[0], c.value)
}

// holdsAlternative compares names of the kind that the value begins with: DNS:name.
func (c criterion) holdsAlternative(cert *x509.Certificate) bool {
	kind, value, _ := strings.Cut(c.value, ":")
	var names []string
	switch kind {
	case "DNS":
		names = cert.DNSNames
	case "EMAIL":
		names = cert.EmailAddresses
	case "URI":
		for _, uri := range cert.URIs {
			names = append(names, uri.String())
		}
	case "IP":
		for _, ip := range cert.IPAddresses {
			names = append(names, ip.String())
		}
	}
	return slices.ContainsFunc(names, func(name string) bool { return c.matches(name, value) })
}

func (c criterion) matches(text, value string) bool {
	switch c.match {
	case '>':
		return strings.HasPrefix(text, value)
	case '<':
		return strings.HasSuffix(text, value)
	}
	return text == value
}
