package cloudstack

import (
	"net/http"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server/route"
)

func declare(code fault.Code, class fault.Class, title, remedy string) *fault.Kind {
	return fault.Declare(fault.Kind{Code: code, Class: class, Title: title, Remedy: remedy})
}

// The faults of the query API.
var (
	ParameterWrong = declare("PARAMETER_WRONG", fault.Invalid, "a parameter is missing or not valid",
		"Correct the parameter; listApis describes every command.")
	MapIndexWrong = declare("MAP_INDEX_WRONG", fault.Invalid, "the index of a map parameter is no small number",
		"Write maps as name[0].key=…&name[0].value=…")
	CommandUnknown = declare("COMMAND_UNKNOWN", fault.Invalid, "there is no such command",
		"Look up its name with listApis.")
	CommandRefused = declare("COMMAND_REFUSED", fault.Invalid, "the command is not for this role",
		"Ask an operator; listApis names the commands this account may call.")
	SignatureRefused = declare("SIGNATURE_REFUSED", fault.Invalid, "unable to verify user credentials and/or request signature",
		"Check the API key, its secret, the signature and the clock.")
	PostRequired = declare("POST_REQUIRED", fault.Invalid, "commands that change something are sent by POST",
		"Send the parameters as a form by POST.")
	NoLogin = declare("LOGIN_REFUSED", fault.Invalid, "there are no passwords and no sessions",
		"Sign requests with an API key; an operator creates one with `pawl key create`.")
	RateLimited = declare("RATE_LIMITED", fault.Transient, "the account sends more requests than it may",
		"Wait for the time in Retry-After and send the request again.")
	Stopping = declare("SERVER_STOPPING", fault.Transient, "the server is stopping",
		"Send the request again in a moment.")
)

// codes maps faults to codes of error answers; all others have 530.
var codes = map[*fault.Kind]int{
	PostRequired: 400, route.Malformed: 400, route.TooLarge: 400, route.TooSlow: 400,
	SignatureRefused: 401, CommandRefused: 401, route.Unauthenticated: 401, route.Forbidden: 401,
	RateLimited: 429, MapIndexWrong: 430,
	ParameterWrong: 431, cluster.NotFound: 431, cluster.ClusterInvalid: 431, cluster.NameTaken: 431, cluster.EntityRefused: 431, cluster.JobNotFound: 431,
	cluster.JobReused: 431, account.Invalid: 431, account.DomainNotFound: 431, account.NotFound: 431,
	CommandUnknown:        432,
	cluster.AccessRefused: 531, cluster.StateRefused: 531, NoLogin: 531, account.Refused: 531,
	cluster.AccountLimit: 532, cluster.QuotaExceeded: 532,
	cluster.CapacityExhausted:   533,
	cluster.ProviderUnreachable: 534, cluster.ProviderThrottled: 534, cluster.CredentialsRefused: 534,
	cluster.ProviderRefused: 535,
	cluster.ResourceInUse:   536, cluster.ForeignVM: 536,
	cluster.RuleConflict: 537,
	Stopping:             503, route.Busy: 503, route.NotReady: 503,
}

// detailCodes maps codes to their second numbers (cserrorcode); 405 has none.
var detailCodes = map[int]int{
	400: 4250, 401: 4250, 429: 4545, 430: 4350, 431: 4350, 432: 4555, 531: 4365,
	532: 4370, 533: 4335, 534: 4380, 535: 4370, 536: 4375, 537: 4360, 530: 4250, 503: 4355,
}

// codeOf returns the code of an error. A disabled entity is not a wrong parameter: its
// fault has the detail "disabled".
func codeOf(err error) int {
	kind, details := fault.Of(err), fault.Details(err)
	switch {
	case kind == cluster.EntityRefused && details["disabled"] == true:
		return 531
	case kind == cluster.StateRefused && details["state"] == string(cluster.Destroyed):
		return 431 // a removed id counts as unknown
	}
	if code, ok := codes[kind]; ok {
		return code
	}
	return 530
}

// notFoundText returns the text by which SDKs and provisioning tools recognize that the
// object of a parameter does not exist. They compare it word for word.
func notFoundText(parameter, value string) string {
	return "Invalid parameter " + parameter + " value=" + value + " due to incorrect long value format, or entity does not exist"
}

// codeOfFault is codeOf for a recorded fault code.
func codeOfFault(code fault.Code) int {
	if kind, ok := fault.Lookup(string(code)); ok {
		return codeOf(kind)
	}
	return 530
}

// textFor returns the text of a fault for a caller. Only operators get messages about
// the capacity of a provider and about internal errors.
func textFor(code fault.Code, message string, operator bool) string {
	kind, ok := fault.Lookup(string(code))
	if !ok {
		kind = fault.Unknown
	}
	if number := codeOf(kind); !operator && (number == 533 || number == 530 && !isClusterFault(kind)) {
		message = kind.Title
	}
	if message == "" {
		message = kind.Title
	}
	return message
}

// isClusterFault reports faults of clusters: their messages reveal nothing internal.
func isClusterFault(kind *fault.Kind) bool { return kind.Guide == clusterGuide }

var clusterGuide = cluster.NotFound.Guide

// failure is an error with its own code.
type failure struct {
	code int
	err  error
}

func (f failure) Error() string { return f.err.Error() }
func (f failure) Unwrap() error { return f.err }

// methodNotAllowed is the only error without a second number.
const methodNotAllowed = http.StatusMethodNotAllowed
