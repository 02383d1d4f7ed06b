package wire

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the API is signed so
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"time"
)

var unauthorized = &failure{401, 4250, "unable to verify user credentials and/or request signature"}

// authenticate finds the user of a signed request.
func (s *Server) authenticate(params url.Values) (User, *failure) {
	user, known := s.o.Users[params.Get("apikey")]
	if !known || user.Disabled || !equal(params.Get("signature"), sign(params, user.Secret)) {
		return User{}, unauthorized
	}
	if params.Get("signatureversion") != "3" {
		if s.o.Enforce {
			return User{}, unauthorized
		}
		return user, nil
	}
	expires, err := time.Parse("2006-01-02T15:04:05-0700", params.Get("expires"))
	if err != nil {
		expires, err = time.Parse(time.RFC3339, params.Get("expires"))
	}
	now := s.o.Now()
	if err != nil || !expires.After(now) || s.o.Enforce && expires.After(now.Add(15*time.Minute)) {
		return User{}, unauthorized
	}
	return user, nil
}

func equal(a, b string) bool { return hmac.Equal([]byte(a), []byte(b)) }

// sign is the signature of merged parameters: sorted by the names as they were
// sent, values encoded as Java's URLEncoder does but for spaces, all in lower case.
func sign(params url.Values, secret string) string {
	type pair struct{ name, value string }
	var pairs []pair
	for name := range params {
		if name != "signature" && !strings.HasPrefix(name, rawPrefix) {
			pairs = append(pairs, pair{cmp.Or(params.Get(rawPrefix+name), name), params.Get(name)})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	parts := make([]string, len(pairs))
	for i, p := range pairs {
		parts[i] = p.name + "=" + encode(p.value)
	}
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(strings.ToLower(strings.Join(parts, "&"))))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func encode(value string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(value) {
		c := value[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-.*_", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}
