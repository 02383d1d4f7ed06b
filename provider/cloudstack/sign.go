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

// sign gives the signature of parameters: sorted by raw name, names as they
// are, values percent-encoded, all of it lower-case, HMAC-SHA1, base64.
func sign(params map[string]string, secret string) string {
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(canonical(params)))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// canonical is what is signed.
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

// escape leaves letters, digits and - . * _ bare; a space is %20, a tilde %7E.
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

// encode is the query or the form body of signed parameters.
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
