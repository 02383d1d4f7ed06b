package transport

import (
	"encoding/json"
	"net/http"

	"github.com/pawl-dev/pawl/fault"
)

// Required is the fault of a call without TLS to an agent, a cluster manager or a pooler that requires it.
var Required = fault.Declare(fault.Kind{
	Code: "TLS_REQUIRED", Class: fault.Blocked, Title: "agents and cluster managers are called over TLS only",
	Remedy: "Call with TLS 1.3 and verify by the authority in agent-trust.crt of the Secret <cluster>.tls (without Kubernetes: secret/tls in the folder of the cluster). If the message names an instance, a manager or a pooler, its process was started by an earlier version or has no certificate yet: restart it.",
	Guide:  "day-two.md#tls",
})

// Guard refuses calls without TLS once the folder requires it.
func Guard(f *Folder, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil || !f.Required() {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Upgrade", "TLS/1.3, HTTP/1.1")
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUpgradeRequired)
		_ = json.NewEncoder(w).Encode(map[string]string{"code": string(Required.Code), "message": "this port takes calls over TLS only"}) // the caller went away
	})
}
