package notification

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

// The headers of a webhook: https://www.standardwebhooks.com.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp" // seconds since 1970
	HeaderSignature = "Webhook-Signature" // v1,base64 for each secret, separated by spaces
)

const secretPrefix = "whsec_"

// ParseSecret reads a secret: whsec_ and 24 to 64 bytes in base64. Its error holds nothing of the text.
func ParseSecret(text string) ([]byte, error) {
	coded, ok := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	if !ok {
		return nil, errors.New("it does not begin with " + secretPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(coded)
	if err != nil {
		return nil, errors.New("what follows " + secretPrefix + " is not base64")
	}
	if len(key) < 24 || len(key) > 64 {
		return nil, errors.New("it has less than 24 or more than 64 bytes")
	}
	return key, nil
}

// Sign returns the signatures of a webhook, one for each key.
func Sign(id string, at time.Time, body []byte, keys ...[]byte) string {
	var all []string
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(all, " ")
}
