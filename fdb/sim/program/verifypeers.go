package program

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"strings"
)

// approves tells whether the certificate of a client satisfies the rules: alternatives with ; between them, each a
// list of conditions with commas. Without rules any certificate does. Source: packaging/docker/sidecar.py at 7.1.67,
// 7.3.69 and 7.4.6, check_cert and check_cert_rule.
func approves(state *tls.ConnectionState, rules string) (bool, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return false, nil
	}
	if rules == "" {
		return true, nil
	}
	for alternative := range strings.SplitSeq(rules, ";") {
		all := true
		for rule := range strings.SplitSeq(alternative, ",") {
			holds, err := satisfies(state.PeerCertificates[0], rule)
			if err != nil {
				return false, err
			}
			if !holds {
				all = false
				break
			}
		}
		if all {
			return true, nil
		}
	}
	return false, nil
}

// nameFields are the parts of a name that a rule can ask for.
var nameFields = map[string]asn1.ObjectIdentifier{
	"CN": {2, 5, 4, 3}, "C": {2, 5, 4, 6}, "L": {2, 5, 4, 7}, "ST": {2, 5, 4, 8}, "O": {2, 5, 4, 10}, "OU": {2, 5, 4, 11},
	"UID": {0, 9, 2342, 19200300, 100, 1, 1}, "DC": {0, 9, 2342, 19200300, 100, 1, 25},
}

// satisfies judges one condition, such as S.CN=name, I.O=name or S.subjectAltName=DNS:name.
func satisfies(c *x509.Certificate, rule string) (bool, error) {
	key, want, is := strings.Cut(rule, "=")
	if !is {
		return false, fmt.Errorf("the rule %q has no =", rule)
	}
	scope, field, scoped := strings.Cut(key, ".")
	if !scoped {
		scope, field = "S", key
	}
	var name pkix.Name
	switch scope {
	case "S", "Subject":
		name = c.Subject
	case "I", "Issuer":
		name = c.Issuer
	case "R", "Root":
		return false, nil // Python does not know the root
	default:
		return false, fmt.Errorf("unknown certificate scope %s", scope)
	}
	if operator, alternative := strings.CutPrefix(field, "subjectAltName"); alternative && (scope == "S" || scope == "Subject") {
		return alternativeName(c, operator, want)
	}
	id, known := nameFields[field]
	if !known {
		return false, fmt.Errorf("unknown certificate field %s", field)
	}
	for _, part := range name.Names {
		if text, ok := part.Value.(string); ok && part.Type.Equal(id) && text == want {
			return true, nil
		}
	}
	return false, nil
}

// alternativeName compares the names of a kind: as a whole, or by their end (<) or beginning (>).
func alternativeName(c *x509.Certificate, operator, want string) (bool, error) {
	kind, text, is := strings.Cut(want, ":")
	if !is {
		return false, fmt.Errorf("%q names no kind of name", want)
	}
	var names []string
	switch kind {
	case "DNS":
		names = c.DNSNames
	case "email":
		names = c.EmailAddresses
	case "IP Address":
		for _, ip := range c.IPAddresses {
			names = append(names, ip.String())
		}
	case "URI":
		for _, u := range c.URIs {
			names = append(names, u.String())
		}
	}
	for _, name := range names {
		switch {
		case operator == "" && name == text, operator == "<" && strings.HasSuffix(name, text), operator == ">" && strings.HasPrefix(name, text):
			return true, nil
		}
	}
	return false, nil
}
