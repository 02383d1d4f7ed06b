package route

import (
	"net/http"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
)

func declare(code fault.Code, class fault.Class, title, remedy string) *fault.Kind {
	return fault.Declare(fault.Kind{Code: code, Class: class, Title: title, Remedy: remedy})
}

// The faults of requests.
var (
	Malformed = declare("REQUEST_MALFORMED", fault.Invalid, "the request cannot be read",
		"Correct its syntax as the message says and send it again.")
	Refused = declare("REQUEST_INVALID", fault.Invalid, "the content of the request is not valid",
		"Correct what the errors name and send it again; /v1/openapi.json describes every request.")
	TooLarge = declare("REQUEST_TOO_LARGE", fault.Invalid, "the request is larger than the server takes",
		"Send less, or raise the server's limit.")
	TooSlow = declare("REQUEST_TOO_SLOW", fault.Transient, "the body of the request did not arrive in time",
		"Send the request again over a faster connection.")
	MediaType = declare("MEDIA_TYPE_UNKNOWN", fault.Invalid, "the server neither reads nor writes this media type",
		"Send and accept application/json.")
	NoRoute = declare("ROUTE_NOT_FOUND", fault.Invalid, "there is nothing at this path",
		"Look up the path in /v1/openapi.json.")
	NoMethod = declare("METHOD_REFUSED", fault.Invalid, "this path does not take this method",
		"Use one of the methods in the Allow header.")
	NotServed = declare("NOT_SERVED", fault.Blocked, "this server is not configured for the request",
		"Start pawl server with what the message names: --clusters FILE for container clusters, --machines FILES for machines, --dsn for a store that lists runs and keeps objects and accounts; or ask a server that has it.")
	CursorInvalid = declare("CURSOR_INVALID", fault.Invalid, "the cursor is not one of this server",
		"Begin without a cursor, then use the next of each page unchanged.")
	FaultNotFound = declare("FAULT_NOT_FOUND", fault.Invalid, "no fault of this code is declared",
		"List the codes with `pawl get faults`.")
	Unauthenticated = declare("UNAUTHENTICATED", fault.Invalid, "the request has no valid token",
		"Give a token that the server knows: a line of its --token-file, or one that `pawl token create --store sqlite` (or --dsn) makes on the machine of its store. The console asks for it, the command line takes it by pawl login SERVER or as PAWL_TOKEN, a program sends Authorization: Bearer TOKEN.")
	Forbidden = declare("FORBIDDEN", fault.Invalid, "this account may not do that",
		"Ask an operator, or use an operator's token.")
	HostRefused = declare("HOST_REFUSED", fault.Invalid, "the request names a foreign host, and the server listens on loopback",
		"Use http://127.0.0.1 or http://localhost; behind a proxy name the host with --host.")
	OriginRefused = declare("ORIGIN_REFUSED", fault.Invalid, "the request was made by a page of another site",
		"Open the console of this server itself.")
	RevisionMissing = declare("REVISION_MISSING", fault.Invalid, "the change does not say which revision it is for",
		"Read it, and send the header If-Match with its ETag; If-Match: * takes any revision.")
	KeyReused = declare("IDEMPOTENCY_KEY_REUSED", fault.Invalid, "the Idempotency-Key was used for another request",
		"Use a new key for each new request.")
	KeyBusy = declare("IDEMPOTENCY_KEY_BUSY", fault.Transient, "the first request with this Idempotency-Key is still being carried out",
		"Wait a moment and send the same request again.")
	Busy = declare("SERVER_BUSY", fault.Transient, "the server has reached its limit of concurrent requests",
		"Send the request again after the time in Retry-After.")
	NotReady = declare("SERVER_NOT_READY", fault.Transient, "the server cannot do its work now",
		"Read the detail; the server becomes ready by itself once its cause is gone.")
	SessionRefused = declare("CSRF_REFUSED", fault.Invalid, "the request has the cookie of a session but not its second token",
		"Send the header X-Pawl-Csrf with the csrf of GET /v1/session; the console does so itself: reload it.")
	ListenUnsafe = declare("LISTEN_UNSAFE", fault.Invalid, "without a token the server may be reached from its own machine only",
		"Give it a token with --token-file, or let it listen on 127.0.0.1.")
	TokenInvalid = declare("TOKEN_INVALID", fault.Invalid, "the token cannot be used",
		"Use at least 20 characters without spaces, for example the output of: openssl rand -hex 32; a file of tokens must be a regular file, readable by its owner only (chmod 600).")
)

// statuses are the HTTP statuses of the faults of requests.
var statuses = map[*fault.Kind]int{
	Malformed: http.StatusBadRequest, Refused: http.StatusUnprocessableEntity, TooLarge: http.StatusRequestEntityTooLarge,
	TooSlow: http.StatusRequestTimeout, MediaType: http.StatusUnsupportedMediaType, NoRoute: http.StatusNotFound,
	NoMethod: http.StatusMethodNotAllowed, NotServed: http.StatusNotImplemented, CursorInvalid: http.StatusBadRequest,
	FaultNotFound: http.StatusNotFound, Unauthenticated: http.StatusUnauthorized, Forbidden: http.StatusForbidden,
	HostRefused: http.StatusForbidden, OriginRefused: http.StatusForbidden, RevisionMissing: http.StatusPreconditionRequired,
	KeyReused: http.StatusUnprocessableEntity, KeyBusy: http.StatusConflict, Busy: http.StatusServiceUnavailable,
	NotReady: http.StatusServiceUnavailable, account.Exists: http.StatusConflict, cluster.NameTaken: http.StatusConflict, account.Refused: http.StatusForbidden,
	cluster.AccessRefused: http.StatusForbidden, SessionRefused: http.StatusForbidden,
}

// StatusOf returns the HTTP status of a fault.
func StatusOf(kind *fault.Kind) int {
	if status, ok := statuses[kind]; ok {
		return status
	}
	return view.Status(kind)
}

// kindOfStatus returns the fault for a status that a library chose.
func kindOfStatus(status int) *fault.Kind {
	switch status {
	case http.StatusUnauthorized:
		return Unauthenticated
	case http.StatusForbidden:
		return Forbidden
	case http.StatusNotFound:
		return NoRoute
	case http.StatusMethodNotAllowed:
		return NoMethod
	case http.StatusRequestTimeout:
		return TooSlow
	case http.StatusRequestEntityTooLarge:
		return TooLarge
	case http.StatusNotAcceptable, http.StatusUnsupportedMediaType:
		return MediaType
	case http.StatusUnprocessableEntity:
		return Refused
	}
	if status >= 400 && status < 500 {
		return Malformed
	}
	return fault.Unknown
}
