package cloudstack

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the API signs with HMAC-SHA1, which is not broken by collisions
	"encoding/base64"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// sign returns the signature of parameters: sorted by raw name, names unchanged, values
// percent-encoded, all lower-case, HMAC-SHA1, base64.
func sign(params map[string]string, secret string) string {
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(canonical(params)))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// canonical returns the text to sign.
func canonical(params map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(params)) { // bytes order ASCII like code units do
		if name == "signature" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(escape(params[name]))
	}
	return strings.ToLower(b.String())
}

// escape keeps letters, digits and - . * _; it encodes a space as %20 and a tilde as %7E.
func escape(value string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(value) {
		switch c := value[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '*', c == '_':
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// encode returns the signed parameters as query or form body.
func encode(params map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(name))
		b.WriteByte('=')
		b.WriteString(escape(params[name]))
	}
	return b.String()
}
