package account

import "github.com/pawl-dev/pawl/fault"

func declare(code fault.Code, class fault.Class, title, remedy string) *fault.Kind {
	return fault.Declare(fault.Kind{Code: code, Class: class, Title: title, Remedy: remedy})
}

// The faults of accounts.
var (
	NotFound = declare("ACCOUNT_NOT_FOUND", fault.Invalid, "there is no such account, or you may not see it",
		"List the accounts you may see with `pawl account list`.")
	DomainNotFound = declare("DOMAIN_NOT_FOUND", fault.Invalid, "there is no such domain, or you may not see it",
		"List the domains you may see with `pawl domain list`.")
	CredentialNotFound = declare("CREDENTIAL_NOT_FOUND", fault.Invalid, "there is no such key or token, or you may not see it",
		"List them with `pawl key list` and `pawl token list`.")
	Exists = declare("ACCOUNT_EXISTS", fault.Blocked, "the name is taken",
		"Choose another name; names are unique in a domain.")
	Invalid = declare("ACCOUNT_INVALID", fault.Invalid, "a value of the account, domain or credential is not valid",
		"Correct what the message names and send the request again.")
	Refused = declare("ACCOUNT_REFUSED", fault.Blocked, "this account may not do that",
		"Ask the domain's admin or an operator.")
)
