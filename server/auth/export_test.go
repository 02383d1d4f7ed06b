package auth

import "time"

// For the tests that ask a server.
var CheckOrigin = checkOrigin

func NewMemorySignedOut() SignedOut { return &memorySignedOut{until: map[string]time.Time{}} }

// CookieOfAnotherServer is signed with a key that no other server has.
func CookieOfAnotherServer(token string) string {
	return newSessions(nil, nil).newSession(HashToken(token), time.Now()).cookie()
}

func (t *Tokens) Count() int { return len(t.hashes) }
