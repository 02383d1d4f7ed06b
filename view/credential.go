package view

import "github.com/pawl-dev/pawl/account"

// Key is an API key as answers show it.
type Key struct {
	account.Credential
	Secret string `json:"secret,omitempty" doc:"only in the first answer to its creation: it is shown once"`
}

// Token is a bearer token as answers show it.
type Token struct {
	account.Credential
	Token string `json:"token,omitempty" doc:"only in the first answer to its creation: it is shown once"`
}
