package cloudstacktest

import (
	"cmp"
	"crypto/hmac"
	"net/url"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster/cloudsign"
)

var unauthorized = &failure{401, 4250, "unable to verify user credentials and/or request signature"}

// authenticate finds the user of a signed request.
func (s *Server) authenticate(params url.Values) (User, *failure) {
	user, known := s.o.Users[params.Get("apikey")]
	if !known || user.Disabled || !hmac.Equal([]byte(params.Get("signature")), []byte(signedParams(params).Sign(user.Secret))) {
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

// signedParams are merged parameters with their names as they were sent.
func signedParams(params url.Values) cloudsign.Params {
	var sent []cloudsign.Param
	for name := range params {
		if !strings.HasPrefix(name, rawPrefix) {
			sent = append(sent, cloudsign.Param{Name: cmp.Or(params.Get(rawPrefix+name), name), Value: params.Get(name)})
		}
	}
	return cloudsign.Order(sent)
}
