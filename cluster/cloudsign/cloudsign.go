// Package cloudsign signs requests as the API of CloudStack does.
//
//	Size=3&apikey=EXAMPLE&name=Blue ~1        parameters, sorted by their original names
//	size=3&apikey=example&name=blue%20%7e1    the signed text: values escaped, all in lower case
//	base64(HMAC-SHA1(secret, text))           the parameter `signature`, which is not signed
//
// The provider that calls CloudStack, the server that answers its clients and the
// simulated CloudStack of the tests use it.
package cloudsign

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the protocol demands it, and HMAC does not depend on collision resistance
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"
)

// Param is a parameter of a request, not escaped.
type Param struct{ Name, Value string }

// Params are the parameters of a request in the order of the signed text, with names in
// lower case. Order makes them.
type Params []Param

// Order sorts parameters by their original names. Of two with the same name the later
// one counts. Names that differ only in case stay both.
func Order(sent []Param) Params {
	last := make(map[string]string, len(sent))
	for _, one := range sent {
		last[one.Name] = one.Value
	}
	return order(last)
}

func order(values map[string]string) Params {
	p := make(Params, 0, len(values))
	for _, name := range slices.SortedFunc(maps.Keys(values), byCodeUnit) {
		p = append(p, Param{strings.ToLower(name), values[name]})
	}
	return p
}

// byCodeUnit orders texts by their UTF-16 code units. That differs from the order of
// their bytes if one has characters above U+FFFF. Invalid UTF-8 is ordered by its
// bytes, so that different names are never equal.
func byCodeUnit(a, b string) int {
	return cmp.Or(slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b))), strings.Compare(a, b))
}

// Sign returns the signature of parameters, with `~` escaped. It skips a parameter
// named signature.
func Sign(secret string, params map[string]string) string { return order(params).Sign(secret) }

// Sign returns the signature of parameters, with `~` escaped.
func (p Params) Sign(secret string) string {
	return base64.StdEncoding.EncodeToString(mac(secret, p.Text(Strict)))
}

// Verify compares a signature in constant time. Clients differ in what they escape, so
// each Form counts.
func Verify(secret, signature string, params Params) bool {
	given, err := base64.StdEncoding.Strict().DecodeString(signature)
	if err != nil {
		given = nil
	}
	good := false
	for _, form := range Forms {
		if hmac.Equal(given, mac(secret, params.Text(form))) {
			good = true
		}
	}
	return good
}

func mac(secret, text string) []byte {
	h := hmac.New(sha1.New, []byte(secret))
	h.Write([]byte(text))
	return h.Sum(nil)
}

// Text returns the signed text. It determines the parameters except for the case of
// values, if names hold neither `&` nor `=`.
func (p Params) Text(form Form) string {
	var b strings.Builder
	for _, one := range p {
		if one.Name == "signature" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(one.Name)
		b.WriteByte('=')
		form.escape(&b, one.Value)
	}
	return strings.ToLower(b.String())
}

// Escape returns a value as Strict escapes it: a space is %20, a tilde %7E.
func Escape(value string) string {
	var b strings.Builder
	Strict.escape(&b, value)
	return b.String()
}

// Form says which of `*` and `~` a client leaves as they are. All leave letters, digits
// and - . _ and escape the rest. Each form is injective.
type Form string

// The forms that clients use.
const (
	Strict Form = "*"  // as Java's URLEncoder, with spaces as %20
	Bare   Form = "*~" // as clients of RFC 3986
	HTML   Form = "~"  // as forms of HTML, which escape `*`
)

// Forms lists every form.
var Forms = []Form{Strict, Bare, HTML}

func (f Form) escape(b *strings.Builder, value string) {
	const hex = "0123456789ABCDEF"
	for i := range len(value) {
		switch c := value[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_',
			strings.IndexByte(string(f), c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
}
