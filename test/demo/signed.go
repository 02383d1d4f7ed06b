package demo

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the wire format requires it, and HMAC does not need what SHA-1 has lost
	"encoding/base64"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// signed returns the query of a signed call: parameters sorted by name, values
// percent-encoded, all in lower case, HMAC-SHA1 with the secret, base64.
func signed(secret string, params map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		parts = append(parts, name+"="+strings.ReplaceAll(url.QueryEscape(params[name]), "+", "%20"))
	}
	query := strings.Join(parts, "&")
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(strings.ToLower(query)))
	return query + "&signature=" + url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
