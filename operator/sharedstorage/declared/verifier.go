package declared

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// iterations are those of PostgreSQL 15.
const iterations = 4096

// checkPassword returns why a password cannot be used. Only printable ASCII is the same in each
// client, because SASLprep (RFC 4013) changes nothing of it.
func checkPassword(password string) error {
	if password == "" {
		return errors.New("it is empty")
	}
	for i := range len(password) {
		if password[i] < ' ' || password[i] > '~' {
			return errors.New("it has a character that is not printable ASCII")
		}
	}
	return nil
}

// verifier returns what the server stores of a password: SCRAM-SHA-256$4096:salt$stored:server.
func verifier(password string, salt []byte, count int) string {
	salted, err := pbkdf2.Key(sha256.New, password, salt, count, sha256.Size)
	if err != nil {
		panic("declared: " + err.Error()) // its length is allowed
	}
	mac := func(text string) []byte {
		m := hmac.New(sha256.New, salted)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	stored := sha256.Sum256(mac("Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", count, encode(salt), encode(stored[:]), encode(mac("Server Key")))
}

// verifies reports whether a verifier is that of a password.
func verifies(stored, password string) bool {
	rest, ok := strings.CutPrefix(stored, "SCRAM-SHA-256$")
	head, _, keys := strings.Cut(rest, "$")
	number, text, colon := strings.Cut(head, ":")
	count, err := strconv.Atoi(number)
	salt, saltErr := base64.StdEncoding.DecodeString(text)
	if !ok || !keys || !colon || err != nil || saltErr != nil || count < 1 || count > 1e6 {
		return false
	}
	return subtle.ConstantTimeCompare([]byte(verifier(password, salt, count)), []byte(stored)) == 1
}
