package query

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the protocol demands it, and HMAC does not depend on collision resistance
	"encoding/base64"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
)

// Sign returns the signature of parameters, as Pawl's own clients send it: `~` is
// escaped. It skips a parameter named signature.
func Sign(secret string, params map[string]string) string {
	all := make([]pair, 0, len(params))
	for name, value := range params {
		all = append(all, pair{name, value})
	}
	return base64.StdEncoding.EncodeToString(mac(secret, canonical(signOrder(all), escape)))
}

// verify compares a signature in constant time. Clients differ in what they escape in
// a value: some escape `~`, and those that escape as in forms escape `*` too. Each
// variant is injective.
func verify(secret, signature string, params parameters) bool {
	given, err := base64.StdEncoding.Strict().DecodeString(signature)
	if err != nil {
		given = nil
	}
	good := false
	for _, form := range []func(byte) bool{escape, escapeNoTilde, escapeForm} {
		if hmac.Equal(given, mac(secret, canonical(params, form))) {
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

// canonical returns the signed text. It determines the parameters except for the case
// of values: names contain neither `&` nor `=`, the order is that of the list, and
// commands read the same list.
func canonical(params parameters, escapes func(byte) bool) string {
	var b strings.Builder
	for _, one := range params {
		if one.name == "signature" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(one.name)
		b.WriteByte('=')
		encode(&b, one.value, escapes)
	}
	return strings.ToLower(b.String())
}

// byCodeUnit orders texts by their UTF-16 code units. That differs from the order of
// their bytes if one has characters above U+FFFF. Invalid UTF-8 is ordered by its
// bytes, so that different names are never equal.
func byCodeUnit(a, b string) int {
	return cmp.Or(slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b))), strings.Compare(a, b))
}

func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_'
}

func escape(c byte) bool        { return !isPlain(c) && c != '*' }
func escapeNoTilde(c byte) bool { return !isPlain(c) && c != '*' && c != '~' }
func escapeForm(c byte) bool    { return !isPlain(c) && c != '~' }

func encode(b *strings.Builder, value string, escapes func(byte) bool) {
	const hex = "0123456789ABCDEF"
	for i := range len(value) {
		if c := value[i]; escapes(c) {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
}

// expiryAhead is the longest validity of a signature if expiry is enforced.
const expiryAhead = 15 * time.Minute

// notExpired checks the expiry of a request. Version 3 of signatures has one, and if it
// is enforced, other versions are refused. Unknown versions are always refused.
func notExpired(p parameters, now time.Time, enforced bool) bool {
	switch p.get("signatureversion") {
	case "3":
	case "", "1", "2":
		return !enforced
	default:
		return false
	}
	until, err := parseTime(p.get("expires"))
	if err != nil || !now.Before(until) {
		return false
	}
	return !enforced || !until.After(now.Add(expiryAhead))
}

// parseTime parses 2030-01-01T00:00:00+0000, with any offset or Z.
func parseTime(text string) (time.Time, error) {
	var t time.Time
	var err error
	for _, layout := range []string{"2006-01-02T15:04:05-0700", time.RFC3339, "2006-01-02T15:04:05-07"} {
		if t, err = time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return t, err
}

// date formats a time for this API.
func date(t time.Time) string { return t.UTC().Format(dateForm) }

const dateForm = "2006-01-02T15:04:05-0700"
